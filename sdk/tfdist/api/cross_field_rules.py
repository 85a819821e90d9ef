"""Rules between the fields of a job's specification, each in CEL and in Python (see `CrossFieldRule`).

Rules about merged pods, such as the storage behind a path or the GPUs of a role, are in `tfdist.validation`.
"""

from typing import Any, Final

from tfdist.api.base import CrossFieldRule
from tfdist.contract import Role

_ROLE_FIELDS: Final = ("self.chief", "self.worker", "self.ps", "self.evaluator")


NOTHING_TO_RUN: Final = (
    "neither a program, a script nor an image is set; set training.program for the bundled trainer, training.script, "
    "or image"
)

_NO_SERVERS_REQUIRED: Final = "self.strategy != 'ParameterServer' || self.task == 'Evaluate'"
"""An evaluation with this strategy gets one error, about the strategy, and none about missing roles."""


def _mode(self: Any) -> str:
    return str(self.evaluation.mode) if self.evaluation else "None"


def _exports(self: Any) -> bool:
    return self.training is not None and self.training.export is not None


def _requires_servers(self: Any) -> bool:
    return bool(self.strategy == "ParameterServer" and self.task != "Evaluate")


def _runs_in_cel(level: str) -> str:
    """Return in CEL whether the job or one of its roles sets a custom program; empty `args` do not."""
    own = " || ".join(f"has({level}.{field})" for field in ("image", "command", "template"))
    anything = f"{own} || (has({level}.args) && size({level}.args) > 0)"
    return anything if level == "self" else f"(has({level}) && ({anything}))"


def _runs_something(self: Any) -> bool:
    roles = (self.chief, self.worker, self.ps, self.evaluator)
    if self.training or self.image or self.command or self.args or self.template:
        return True
    return any(r is not None and (r.image or r.command or r.args or r.template) for r in roles)


_ROLES: Final = (
    CrossFieldRule(
        "!has(self.ps) || self.strategy == 'ParameterServer' || self.strategy == 'Custom'",
        "ps requires strategy ParameterServer or Custom; change strategy, or remove ps",
        ".ps",
        lambda self: self.ps is None or self.strategy in {"ParameterServer", "Custom"},
    ),
    CrossFieldRule(
        f"{_NO_SERVERS_REQUIRED} || has(self.ps)",
        "strategy ParameterServer requires a parameter server; add ps: {replicas: 1}",
        ".ps",
        lambda self: not _requires_servers(self) or self.ps is not None,
    ),
    CrossFieldRule(
        f"{_NO_SERVERS_REQUIRED} || has(self.worker)",
        "strategy ParameterServer requires a worker; add worker: {replicas: 1}",
        ".worker",
        lambda self: not _requires_servers(self) or self.worker is not None,
    ),
    CrossFieldRule(
        f"{_NO_SERVERS_REQUIRED} || (has(self.chief) && self.chief.replicas == 1)",
        "strategy ParameterServer requires a chief, which coordinates the workers; add chief: {}",
        ".chief",
        lambda self: not _requires_servers(self) or self.replicas(Role.CHIEF) == 1,
    ),
    CrossFieldRule(
        "(self.strategy != 'OneDevice' && self.strategy != 'Mirrored') || "
        "((!has(self.chief) || self.chief.replicas == 0) && (!has(self.worker) || self.worker.replicas == 1))",
        "strategies OneDevice and Mirrored run one replica; set worker.replicas to 1 and remove chief, "
        "or use strategy MultiWorkerMirrored",
        ".worker.replicas",
        lambda self: (
            self.strategy not in {"OneDevice", "Mirrored"}
            or (self.replicas(Role.CHIEF) == 0 and self.replicas(Role.WORKER) == 1)
        ),
    ),
    CrossFieldRule(
        "self.strategy != 'Independent' || !has(self.training) || !has(self.training.program)",
        "strategy Independent runs a script or an image, because each replica of a program would train a model of its "
        "own; set training.script, image or command, or use strategy MultiWorkerMirrored",
        ".training.program",
        lambda self: self.strategy != "Independent" or not self.runs_program,
    ),
    CrossFieldRule(
        "self.strategy != 'Independent' || (self.task == 'Train' && !has(self.checkpoint) && !has(self.evaluator) && "
        "(!has(self.evaluation) || self.evaluation.mode == 'None'))",
        "strategy Independent has no common model to save or to evaluate; remove checkpoint, evaluator, "
        "evaluation.mode and task Evaluate, and have each replica write to a directory of its own",
        ".strategy",
        lambda self: (
            self.strategy != "Independent"
            or (self.task == "Train" and not self.checkpoint and not self.evaluator and _mode(self) == "None")
        ),
    ),
)

_TASK: Final = (
    CrossFieldRule(
        "self.task != 'Evaluate' || has(self.checkpoint)",
        "task Evaluate requires a checkpoint; set checkpoint.directory",
        ".checkpoint",
        lambda self: self.task != "Evaluate" or self.checkpoint is not None,
    ),
    CrossFieldRule(
        "self.task != 'Evaluate' || !has(self.checkpoint) || self.checkpoint.restore != 'None'",
        "task Evaluate requires a checkpoint; set restore to Latest or to a path",
        ".checkpoint.restore",
        lambda self: self.task != "Evaluate" or self.checkpoint is None or self.checkpoint.restore != "None",
    ),
    CrossFieldRule(
        "self.task != 'Evaluate' || (!has(self.chief) && !has(self.ps) && !has(self.evaluator))",
        "task Evaluate runs on the workers only; remove chief, ps and evaluator",
        ".task",
        lambda self: self.task != "Evaluate" or (self.chief is None and self.ps is None and self.evaluator is None),
    ),
    CrossFieldRule(
        "self.task != 'Evaluate' || !has(self.evaluation) || self.evaluation.mode == 'None'",
        "task Evaluate and evaluation.mode are mutually exclusive; remove evaluation.mode",
        ".evaluation.mode",
        lambda self: self.task != "Evaluate" or _mode(self) == "None",
    ),
    CrossFieldRule(
        "self.task != 'Evaluate' || self.strategy != 'ParameterServer'",
        "task Evaluate does not support parameter servers; use strategy MultiWorkerMirrored, which reads their "
        "checkpoints",
        ".strategy",
        lambda self: self.task != "Evaluate" or self.strategy != "ParameterServer",
    ),
    CrossFieldRule(
        "has(self.training) || " + " || ".join(map(_runs_in_cel, ("self", *_ROLE_FIELDS))),
        NOTHING_TO_RUN,
        ".training",
        _runs_something,
    ),
)

_EVALUATION: Final = (
    CrossFieldRule(
        "!has(self.evaluation) || self.evaluation.mode == 'None' || has(self.checkpoint)",
        "evaluation requires checkpoints; set checkpoint.directory",
        ".evaluation.mode",
        lambda self: _mode(self) == "None" or self.checkpoint is not None,
    ),
    CrossFieldRule(
        "!has(self.evaluation) || !has(self.evaluator) || self.evaluator.replicas == 1 || "
        "(self.evaluation.mode != 'Continuous' && self.evaluation.mode != 'Both')",
        "modes Continuous and Both require an evaluator; set evaluator.replicas to 1, or mode to AfterTraining or None",
        ".evaluator.replicas",
        lambda self: _mode(self) not in {"Continuous", "Both"} or self.replicas(Role.EVALUATOR) == 1,
    ),
    CrossFieldRule(
        "!has(self.evaluation) || !has(self.evaluation.ensemble) || "
        "(self.task == 'Evaluate' && has(self.training) && has(self.training.program))",
        "an ensemble requires task Evaluate and a program; set task and training.program, or remove ensemble",
        ".evaluation.ensemble",
        lambda self: (
            self.evaluation is None
            or self.evaluation.ensemble is None
            or (self.task == "Evaluate" and self.runs_program)
        ),
    ),
    CrossFieldRule(
        "!has(self.tensorBoard) || has(self.tensorBoard.logDirectory) || has(self.checkpoint)",
        "TensorBoard requires a log directory; set logDirectory, or checkpoint.directory",
        ".tensorBoard.logDirectory",
        lambda self: (
            self.tensor_board is None or self.tensor_board.log_directory is not None or self.checkpoint is not None
        ),
    ),
)

_EXPORT: Final = (
    CrossFieldRule(
        "!has(self.training) || !has(self.training.export) || (has(self.checkpoint) && self.task == 'Train')",
        "export requires training with checkpoints; set checkpoint.directory, or remove export",
        ".training.export",
        lambda self: not _exports(self) or (self.checkpoint is not None and self.task == "Train"),
    ),
    CrossFieldRule(
        "!has(self.training) || !has(self.training.export) || !has(self.training.program) || "
        "!('Best' in self.training.export.which) || "
        "(has(self.evaluation) && self.evaluation.mode in ['Continuous', 'Both'])",
        "the best model of a program requires evaluation.mode Continuous or Both; change mode, or remove Best",
        ".training.export.which",
        lambda self: (
            not (_exports(self) and self.runs_program and "Best" in self.training.export.which)
            or _mode(self) in {"Continuous", "Both"}
        ),
    ),
)

_STANDBY: Final = (
    CrossFieldRule(
        "!self.runPolicy.standby || (has(self.training) && has(self.training.program) && "
        "has(self.checkpoint) && self.task == 'Train')",
        "standby requires the bundled trainer and checkpoints; set training.program and checkpoint, or remove standby",
        ".runPolicy.standby",
        lambda self: (
            not self.run_policy.standby or (self.runs_program and self.checkpoint is not None and self.task == "Train")
        ),
    ),
    CrossFieldRule(
        "!self.runPolicy.standby || (self.strategy != 'ParameterServer' && self.strategy != 'Custom')",
        "standby requires a strategy whose replicas restart together, such as MultiWorkerMirrored; change strategy, "
        "or remove standby",
        ".runPolicy.standby",
        lambda self: not self.run_policy.standby or self.strategy not in {"ParameterServer", "Custom"},
    ),
)

_NETWORK: Final = (
    CrossFieldRule(
        "!has(self.networkPolicyIngress) || self.networkPolicy == 'Enabled'",
        "networkPolicyIngress requires networkPolicy Enabled; change networkPolicy, or remove networkPolicyIngress",
        ".networkPolicyIngress",
        lambda self: self.network_policy_ingress is None or self.network_policy == "Enabled",
    ),
)

_SCHEDULING: Final = (
    CrossFieldRule(
        "!has(self.scheduling.minAvailable) || self.scheduling.minAvailable <= "
        "(has(self.chief) ? self.chief.replicas : 0)"
        " + (has(self.worker) ? self.worker.replicas : has(self.chief) && self.chief.replicas > 0 ? 0 : 1)"
        " + (has(self.ps) ? self.ps.replicas : 0)",
        "minAvailable exceeds the number of replicas of chief, worker and ps; reduce it, or remove it to require all "
        "of them",
        ".scheduling.minAvailable",
        lambda self: (
            self.scheduling.min_available is None
            or self.scheduling.min_available <= sum(map(self.replicas, (Role.CHIEF, Role.WORKER, Role.PS)))
        ),
    ),
    CrossFieldRule(
        "!has(self.scheduling.queue) || self.scheduling.gang in ['Auto', 'KAI', 'Kueue', 'Volcano']",
        "queue requires scheduling.gang Kueue, Volcano or KAI, or Auto, which chooses Kueue or Volcano, whichever is "
        "installed; change gang, or remove queue",
        ".scheduling.queue",
        lambda self: self.scheduling.queue is None or self.scheduling.gang in {"Auto", "KAI", "Kueue", "Volcano"},
    ),
)

SPEC_RULES: Final = (*_ROLES, *_TASK, *_EVALUATION, *_EXPORT, *_STANDBY, *_NETWORK, *_SCHEDULING)
"""Rules between fields of the specification that the API server evaluates."""
