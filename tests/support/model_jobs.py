"""The jobs of the model of a cluster: their kinds, and the edits of a user."""

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from support.factories import CHECKPOINT, manifest
from tfdist.api.v1 import TFDistJob
from tfdist.contract import Role
from tfdist.render.fingerprint import fingerprint
from tfdist.render.gang import GangName
from tfdist.validation import FieldError, ValidationFailed, parse

BACKOFF_LIMIT = 2
GANGS = {
    GangName.TRAINING: {Role.CHIEF, Role.WORKER, Role.PS},
    GangName.EVALUATOR: {Role.EVALUATOR},
    GangName.EVALUATION: {Role.EVALUATION},
}
_PROGRAM = {"image": "user/program:1", "command": ["run"]}
_CONTINUOUS = {"evaluation": {"mode": "Continuous"}}
_DEADLINES = {"startDeadlineSeconds": 3000, "activeDeadlineSeconds": 20000}

JOBS: dict[str, dict[str, Any]] = {
    "mirrored workers, evaluated afterwards": {"evaluation": {"mode": "AfterTraining"}, "checkpoint": CHECKPOINT},
    "parameter servers with an evaluator": {
        "strategy": "ParameterServer",
        "chief": {},
        "ps": {"replicas": 1},
        "evaluator": {},
        **_PROGRAM,
    },
    "all roles, all workers decide": {
        "strategy": "Custom",
        "chief": {},
        "ps": {"replicas": 1},
        "evaluator": {},
        "successPolicy": "AllWorkers",
        **_PROGRAM,
    },
    "one device with deadlines": {"strategy": "OneDevice", "worker": {"replicas": 1}, "runPolicy": _DEADLINES},
    "independent replicas": {"strategy": "Independent", "chief": {}, "training": {"script": "/code/search.py"}},
    "independent replicas, all workers decide": {
        "strategy": "Independent",
        "training": {"script": "/code/search.py"},
        "successPolicy": "AllWorkers",
    },
    "a script that leaves a model": {
        "training": {"script": "/code/train.py", "export": {}},
        "checkpoint": CHECKPOINT,
    },
    "evaluation alone": {"task": "Evaluate", "checkpoint": CHECKPOINT},
    "workers under launchers": {"successPolicy": "AllWorkers"},
    "workers in a queue of Volcano": {"scheduling": {"queue": "team-a"}, "checkpoint": CHECKPOINT, **_CONTINUOUS},
    "workers that Kueue admits": {
        "scheduling": {"gang": "Kueue", "queue": "team-a"},
        "evaluation": {"mode": "Both"},
        "checkpoint": CHECKPOINT,
    },
    "parameter servers in a queue of Kueue": {
        "strategy": "ParameterServer",
        "chief": {},
        "ps": {"replicas": 1},
        "scheduling": {"queue": "team-a"},
        **_PROGRAM,
    },
    "independent replicas in a queue of Kueue": {
        "strategy": "Independent",
        "training": {"script": "/code/search.py"},
        "successPolicy": "AllWorkers",
        "scheduling": {"queue": "team-a"},
    },
    "parameter servers under scheduler-plugins": {
        "strategy": "ParameterServer",
        "chief": {},
        "ps": {"replicas": 1},
        "scheduling": {"gang": "Coscheduling", "timeoutSeconds": 60},
        **_PROGRAM,
    },
    "parameter servers in a queue of KAI": {
        "strategy": "ParameterServer",
        "chief": {},
        "ps": {"replicas": 1},
        "scheduling": {"gang": "KAI", "queue": "team-a"},
        **_PROGRAM,
    },
    "evaluated during training and after it, changed at once": {
        "evaluation": {"mode": "Both"},
        "checkpoint": CHECKPOINT,
        "runPolicy": {"updateStrategy": "Restart"},
    },
}


@dataclass(frozen=True)
class Edition:
    """A specification as the user writes it: its pods have the number of the `edit`; or it has an error.

    Its class of Kueue has the number of the `priority`.
    """

    suspend: bool = False
    workers: int | None = None
    edit: int = 0
    valid: bool = True
    priority: int = 0

    def manifest(self, kind: str) -> dict[str, Any]:
        """Return the JSON of a job of a kind."""
        spec = JOBS[kind]
        policy = {"backoffLimit": BACKOFF_LIMIT, "keepFailedPods": 1, **spec.get("runPolicy", {})}
        changed: dict[str, Any] = {"worker": {"replicas": self.workers}} if self.workers else {}
        changed |= {"env": [{"name": "EDIT", "value": str(self.edit)}]}
        error = {} if self.valid else {"volumeMounts": [{"name": "absent", "mountPath": "/absent"}]}
        made = manifest(**(spec | {"runPolicy": policy | {"suspend": self.suspend}} | changed | error))
        made["metadata"]["labels"] = {"kueue.x-k8s.io/priority-class": f"class-{self.priority}"}
        return made


@lru_cache(maxsize=1024)
def parsed(kind: str, edition: Edition) -> tuple[TFDistJob | None, tuple[FieldError, ...], str]:
    """Return a job, or what is wrong with it, and the fingerprint of its pods."""
    try:
        job = parse(edition.manifest(kind))
    except ValidationFailed as error:
        return None, tuple(error.problems), ""
    return job, (), fingerprint(job)


@dataclass
class Job:
    """The job as the API server stores it."""

    edition: Edition
    version: int = 1
    generation: int = 1
    status: dict[str, Any] = field(default_factory=dict)
    deleting: bool = False
    restarted_at: str = ""
