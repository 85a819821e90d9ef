"""The rules between the fields of a job's specification, each in CEL and in Python (see `Check`).

What only the merged pod shows, such as the storage behind a path or the GPUs of a role, is no rule here but a
check of `tfdist.validation`.
"""

from typing import Any, Final

from tfdist.api.base import Check
from tfdist.contract import Role

_ROLE_FIELDS: Final = ("self.chief", "self.worker", "self.ps", "self.evaluator")
_GANGS_OF_WORKERS: Final = ("MultiWorkerMirrored", "ParameterServer")


_NO_SERVERS_WANTED: Final = "self.strategy != 'ParameterServer' || self.task == 'Evaluate'"
"""An evaluation with this strategy is told one thing, to take another, and not to add roles as well."""


def _mode(self: Any) -> str:
    return str(self.evaluation.mode) if self.evaluation else "None"


def _wants_servers(self: Any) -> bool:
    return bool(self.strategy == "ParameterServer" and self.task != "Evaluate")


def _runs_in_cel(level: str) -> str:
    """Return in CEL whether the job or one of its roles names a program of its own; no argument is none."""
    own = " || ".join(f"has({level}.{field})" for field in ("image", "command", "template"))
    anything = f"{own} || (has({level}.args) && size({level}.args) > 0)"
    return anything if level == "self" else f"(has({level}) && ({anything}))"


def _runs_something(self: Any) -> bool:
    roles = (self.chief, self.worker, self.ps, self.evaluator)
    if self.training or self.image or self.command or self.args or self.template:
        return True
    return any(r is not None and (r.image or r.command or r.args or r.template) for r in roles)


_ROLES: Final = (
    Check(
        "!has(self.ps) || self.strategy == 'ParameterServer' || self.strategy == 'Custom'",
        "parameter servers need strategy ParameterServer or Custom: set it, or remove ps",
        ".ps",
        lambda self: self.ps is None or self.strategy in {"ParameterServer", "Custom"},
    ),
    Check(
        f"{_NO_SERVERS_WANTED} || has(self.ps)",
        "strategy ParameterServer needs at least one parameter server: add ps: {replicas: 1}",
        ".ps",
        lambda self: not _wants_servers(self) or self.ps is not None,
    ),
    Check(
        f"{_NO_SERVERS_WANTED} || has(self.worker)",
        "strategy ParameterServer needs at least one worker: add worker: {replicas: 1}",
        ".worker",
        lambda self: not _wants_servers(self) or self.worker is not None,
    ),
    Check(
        f"{_NO_SERVERS_WANTED} || (has(self.chief) && self.chief.replicas == 1)",
        "strategy ParameterServer needs a chief, which coordinates the workers: add chief: {}",
        ".chief",
        lambda self: not _wants_servers(self) or self.replicas(Role.CHIEF) == 1,
    ),
    Check(
        "(self.strategy != 'OneDevice' && self.strategy != 'Mirrored') || "
        "((!has(self.chief) || self.chief.replicas == 0) && (!has(self.worker) || self.worker.replicas == 1))",
        "strategies OneDevice and Mirrored run one replica: set worker.replicas to 1 and remove chief, "
        "or take strategy MultiWorkerMirrored",
        ".worker.replicas",
        lambda self: (
            self.strategy not in {"OneDevice", "Mirrored"}
            or (self.replicas(Role.CHIEF) == 0 and self.replicas(Role.WORKER) == 1)
        ),
    ),
)

_TASK: Final = (
    Check(
        "self.task != 'Evaluate' || has(self.checkpoint)",
        "task Evaluate restores a checkpoint: set checkpoint.directory",
        ".checkpoint",
        lambda self: self.task != "Evaluate" or self.checkpoint is not None,
    ),
    Check(
        "self.task != 'Evaluate' || !has(self.checkpoint) || self.checkpoint.restore != 'None'",
        "task Evaluate needs a checkpoint to evaluate: set restore to Latest or to the path of one",
        ".checkpoint.restore",
        lambda self: self.task != "Evaluate" or self.checkpoint is None or self.checkpoint.restore != "None",
    ),
    Check(
        "self.task != 'Evaluate' || (!has(self.chief) && !has(self.ps) && !has(self.evaluator))",
        "task Evaluate runs on the workers alone: remove chief, ps and evaluator",
        ".task",
        lambda self: self.task != "Evaluate" or (self.chief is None and self.ps is None and self.evaluator is None),
    ),
    Check(
        "self.task != 'Evaluate' || !has(self.evaluation) || self.evaluation.mode == 'None'",
        "task Evaluate is the evaluation: remove evaluation.mode",
        ".evaluation.mode",
        lambda self: self.task != "Evaluate" or _mode(self) == "None",
    ),
    Check(
        "self.task != 'Evaluate' || self.strategy != 'ParameterServer'",
        "task Evaluate has no parameter servers: take strategy MultiWorkerMirrored, which reads the same checkpoints",
        ".strategy",
        lambda self: self.task != "Evaluate" or self.strategy != "ParameterServer",
    ),
    Check(
        "has(self.training) || " + " || ".join(map(_runs_in_cel, ("self", *_ROLE_FIELDS))),
        "nothing to run: set training.program for the bundled trainer, or image and command",
        ".training",
        _runs_something,
    ),
)

_EVALUATION: Final = (
    Check(
        "!has(self.evaluation) || self.evaluation.mode == 'None' || has(self.checkpoint)",
        "evaluation restores a checkpoint: set checkpoint.directory",
        ".evaluation.mode",
        lambda self: _mode(self) == "None" or self.checkpoint is not None,
    ),
    Check(
        "!has(self.evaluation) || !has(self.evaluator) || self.evaluator.replicas == 1 || "
        "(self.evaluation.mode != 'Continuous' && self.evaluation.mode != 'Both')",
        "evaluation beside training needs the evaluator: set evaluator.replicas to 1, or mode to AfterTraining or None",
        ".evaluator.replicas",
        lambda self: _mode(self) not in {"Continuous", "Both"} or self.replicas(Role.EVALUATOR) == 1,
    ),
    Check(
        "!has(self.tensorBoard) || has(self.tensorBoard.logDirectory) || has(self.checkpoint)",
        "TensorBoard needs to know where the logs are: set logDirectory, or checkpoint.directory",
        ".tensorBoard.logDirectory",
        lambda self: (
            self.tensor_board is None or self.tensor_board.log_directory is not None or self.checkpoint is not None
        ),
    ),
)

_SIZES: Final = (
    Check(
        "!has(self.elastic) || self.strategy == 'MultiWorkerMirrored' || self.strategy == 'ParameterServer'",
        "only workers that train together come and go: elastic needs strategy MultiWorkerMirrored or ParameterServer",
        ".elastic",
        lambda self: self.elastic is None or self.strategy in _GANGS_OF_WORKERS,
    ),
    Check(
        "!has(self.elastic) || !has(self.worker) || self.elastic.minWorkers <= self.worker.replicas",
        "worker.replicas is less than minWorkers: raise it, or lower minWorkers",
        ".elastic.minWorkers",
        lambda self: self.elastic is None or self.worker is None or self.elastic.min_workers <= self.worker.replicas,
    ),
    Check(
        "!has(self.elastic) || !has(self.elastic.maxWorkers) || !has(self.worker) || "
        "self.worker.replicas <= self.elastic.maxWorkers",
        "worker.replicas is more than maxWorkers: lower it, or raise maxWorkers",
        ".elastic.maxWorkers",
        lambda self: (
            self.elastic is None
            or self.elastic.max_workers is None
            or self.worker is None
            or self.worker.replicas <= self.elastic.max_workers
        ),
    ),
    Check(
        "!has(self.elastic) || has(self.worker)",
        "elastic is about workers: add worker with the number to begin with",
        ".elastic",
        lambda self: self.elastic is None or self.worker is not None,
    ),
    Check(
        "!has(self.scheduling.minAvailable) || self.scheduling.minAvailable <= "
        "(has(self.chief) ? self.chief.replicas : 0) + (has(self.ps) ? self.ps.replicas : 0) + "
        "(has(self.worker) ? self.worker.replicas : (has(self.chief) && self.chief.replicas == 1 ? 0 : 1))",
        "minAvailable is more than the gang has replicas (chief, workers, ps; never the evaluator): lower it",
        ".scheduling.minAvailable",
        lambda self: (
            self.scheduling.min_available is None
            or self.scheduling.min_available
            <= self.replicas(Role.CHIEF) + self.replicas(Role.WORKER) + self.replicas(Role.PS)
        ),
    ),
    Check(
        "!has(self.scheduling.queue) || self.scheduling.gang == 'Auto' || self.scheduling.gang == 'Kueue' || "
        "self.scheduling.gang == 'Volcano'",
        "only Kueue and Volcano have queues: set scheduling.gang to one of them or to Auto, or remove queue",
        ".scheduling.queue",
        lambda self: self.scheduling.queue is None or self.scheduling.gang in {"Auto", "Kueue", "Volcano"},
    ),
)

_STANDBY: Final = (
    Check(
        "!self.runPolicy.standby || (has(self.training) && has(self.checkpoint) && self.task == 'Train')",
        "a program in reserve is one of the bundled trainer, which goes on from a checkpoint: set training and "
        "checkpoint, or remove standby",
        ".runPolicy.standby",
        lambda self: (
            not self.run_policy.standby
            or (self.training is not None and self.checkpoint is not None and self.task == "Train")
        ),
    ),
    Check(
        "!self.runPolicy.standby || (self.strategy != 'ParameterServer' && self.strategy != 'Custom')",
        "programs in reserve go on together: remove standby, or take a strategy whose replicas restart together, such "
        "as MultiWorkerMirrored",
        ".runPolicy.standby",
        lambda self: not self.run_policy.standby or self.strategy not in {"ParameterServer", "Custom"},
    ),
)

SPEC_CHECKS: Final = (*_ROLES, *_TASK, *_EVALUATION, *_SIZES, *_STANDBY)
"""Every rule between fields of the specification that the API server checks."""
