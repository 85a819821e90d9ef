"""The TFDistJob resource, `tfdist.dev/v1`: the one source of the CRD, its checks and its reference page.

One served version, extended only by optional fields.
"""

from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import StringConstraints

from tfdist.api.base import ApiModel
from tfdist.api.cross_checks import SPEC_CHECKS
from tfdist.api.patterns import JOB_NAME
from tfdist.api.pod_fields import PodFields
from tfdist.api.policies import ElasticSpec, FailurePolicy, OomPolicy, RunPolicy, SchedulingSpec, SuccessPolicy
from tfdist.api.roles import ChiefSpec, EvaluatorSpec, ParameterServerSpec, WorkerSpec
from tfdist.api.training import (
    CheckpointSpec,
    EvaluationMode,
    EvaluationSpec,
    RuntimeSpec,
    TensorBoardSpec,
    TrainingSpec,
)
from tfdist.contract import Role, Task

GROUP: Final = "tfdist.dev"
VERSION: Final = "v1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
KIND: Final = "TFDistJob"
PLURAL: Final = "tfdistjobs"
MAX_NAME_LENGTH: Final = 45
"""Longest job name: every pod name made from it stays within a DNS label's 63 characters."""


class Strategy(StrEnum):
    """How TensorFlow distributes the work; it decides cluster spec, restart domains and checks."""

    MULTI_WORKER_MIRRORED = "MultiWorkerMirrored"
    PARAMETER_SERVER = "ParameterServer"
    MIRRORED = "Mirrored"
    ONE_DEVICE = "OneDevice"
    CUSTOM = "Custom"


class TFDistJobSpec(PodFields):
    """What to run, on how many replicas, and what to do when something fails."""

    checks = SPEC_CHECKS

    task: Task = Task.TRAIN
    """`Train`, or `Evaluate`: no training, the workers evaluate `checkpoint.restore` once and report."""
    strategy: Strategy = Strategy.MULTI_WORKER_MIRRORED
    """How TensorFlow distributes the work. `MultiWorkerMirrored`: all workers take each step together; `Mirrored`: one
    worker with several GPUs; `OneDevice`: one worker with one; `ParameterServer`: each worker at its own pace, with
    the variables on `ps`; `Custom`: any mix of roles, which restarts as a whole."""
    chief: ChiefSpec | None = None
    """The chief, which leads and writes checkpoints; without it worker 0 does."""
    worker: WorkerSpec | None = None
    """The workers, which train; a job that names neither worker nor chief gets one worker."""
    ps: ParameterServerSpec | None = None
    """The parameter servers; only with strategy `ParameterServer` or `Custom`."""
    evaluator: EvaluatorSpec | None = None
    """The evaluator, which scores checkpoints beside training; name it only to give it resources of its own, for modes
    `Continuous` and `Both` of `evaluation` make one anyway."""
    training: TrainingSpec | None = None
    """What the bundled trainer runs; a program of your own, in `image` or `command`, needs none."""
    checkpoint: CheckpointSpec | None = None
    """Where and how often the chief saves, and what is restored at a start; without it a restart begins at step 0."""
    evaluation: EvaluationSpec | None = None
    """Evaluation of checkpoints, beside training or after it; without it none."""
    tensor_board: TensorBoardSpec | None = None
    """A TensorBoard that shows the job's logs; absent: none."""
    run_policy: RunPolicy = RunPolicy()
    """Deadlines, number of restarts, suspension, and what is left after the end."""
    success_policy: SuccessPolicy = SuccessPolicy.CHIEF
    """Whose success ends the job: `Chief` (where there is none, worker 0) or `AllWorkers`. Parameter servers and
    evaluator never decide."""
    failure_policy: FailurePolicy | None = None
    """The job's own rules about what a failure means, before the defaults: crashes restart and count, evictions restart
    and do not count, exit codes 64, 65, 66 and 78 (a mistake of the user) end the job."""
    oom_policy: OomPolicy | None = None
    """More memory for the next attempt after an out-of-memory kill; absent: none."""
    elastic: ElasticSpec | None = None
    """Run with as many workers as can be had; absent: only with all."""
    scheduling: SchedulingSpec = SchedulingSpec()
    """How the gang gets its place in the cluster."""
    runtime: RuntimeSpec = RuntimeSpec()
    """Settings of TensorFlow, which the bundled trainer applies and your own program finds in `TFDIST_JOB`."""
    network_policy: Literal["Enabled", "Disabled"] = "Enabled"
    """`Enabled`: only the job's own pods reach its TensorFlow port, and only the controller its report port.
    `Disabled`: whatever the cluster lets through, for example where a program of yours is reached from outside."""

    def fields_of(self, role: Role) -> PodFields | None:
        """Return the role's own pod fields; a member of an evaluation gang is made like a worker."""
        return {
            Role.CHIEF: self.chief,
            Role.WORKER: self.worker,
            Role.PS: self.ps,
            Role.EVALUATOR: self.evaluator,
            Role.EVALUATION: self.worker,
        }[role]

    def replicas(self, role: Role) -> int:
        """Return how many replicas of a role the job has, what it leaves out included."""
        mode = self.evaluation.mode if self.evaluation else EvaluationMode.NONE
        match role:
            case Role.CHIEF:
                return self.chief.replicas if self.chief else 0
            case Role.WORKER:
                return self.worker.replicas if self.worker else int(self.replicas(Role.CHIEF) == 0)
            case Role.PS:
                return self.ps.replicas if self.ps else 0
            case Role.EVALUATOR:
                return self.evaluator.replicas if self.evaluator else int(mode.beside_training)
            case Role.EVALUATION:
                if not mode.after_training:
                    return 0
                own = self.evaluation.replicas if self.evaluation else None
                return own or self.replicas(Role.CHIEF) + self.replicas(Role.WORKER)


class ObjectMeta(ApiModel):
    """The part of the metadata that checks and rendering need; the rest is Kubernetes' own."""

    model_config = {"extra": "ignore"}

    name: Annotated[str, StringConstraints(max_length=MAX_NAME_LENGTH, pattern=JOB_NAME)]
    namespace: Annotated[str, StringConstraints(min_length=1, max_length=63)] = "default"
    uid: str = ""


class TFDistJob(ApiModel):
    """Distributed TensorFlow: chief, workers, parameter servers and evaluator with generated TF_CONFIG."""

    api_version: Literal["tfdist.dev/v1"]
    kind: Literal["TFDistJob"]
    metadata: ObjectMeta
    spec: TFDistJobSpec
