"""Numbers out of their bounds, words that are no choice, texts that are too long or malformed: field by field."""

from typing import Any, Final

from support.bad_manifests.case import (
    AT_LEAST,
    AT_MOST,
    ENUM,
    FEW,
    LONG,
    MANY,
    PATTERN,
    SHORT,
    TWICE,
    TYPE,
    Bad,
    field,
)
from support.factories import CHECKPOINT

LARGE: Final = 2**31
AFTER: Final[dict[str, Any]] = {"evaluation": {"mode": "AfterTraining"}, "checkpoint": CHECKPOINT}
SECONDS: Final = "must be a number of seconds of at least 1, or Auto"
URL: Final[dict[str, Any]] = {"checkpoint": {"directory": "gs://bucket/ckpt"}}
RULE: Final[dict[str, Any]] = {"failurePolicy": {"rules": [{"action": "FailJob", "onMessagePattern": "OOM"}]}}
CODES: Final[dict[str, Any]] = {
    "failurePolicy": {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1]}}]}
}
EXIT: Final = "failurePolicy.rules[0].onExitCodes"
CONDITION: Final = "failurePolicy.rules[0].onPodConditions"
GIT: Final[dict[str, Any]] = {"source": {"git": {"repository": "https://host/team/code.git"}}}


def code(**source: Any) -> dict[str, Any]:
    return {"training": {"program": "team:Train", "source": source}}


def git(**fields: Any) -> dict[str, Any]:
    return code(git={"repository": "https://host/team/code.git", **fields})


_JOB: Final = (
    field(
        "a strategy with a typo",
        "strategy",
        "Mirored",
        'Unsupported value: "Mirored": supported values',
        ENUM,
    ),
    field(
        "a task in small letters",
        "task",
        "train",
        'Unsupported value: "train": supported values: Train, Evaluate; did you mean Train?',
        ENUM,
    ),
    field(
        "an unknown success policy",
        "successPolicy",
        "Anyone",
        'Unsupported value: "Anyone": supported values: Chief, AllWorkers',
        ENUM,
    ),
    field(
        "a network policy as a boolean",
        "networkPolicy",
        True,
        "Unsupported value: true: supported values: Enabled, Disabled",
        ENUM,
    ),
    field("an image without a name", "image", "", "must have at least 1 character", SHORT),
    field(
        "an image with a novel for a name",
        "image",
        "x" * 1025,
        "Too long: 1025 characters: must have at most 1024 characters",
        LONG,
    ),
    field(
        "a pull policy that does not exist",
        "imagePullPolicy",
        "Sometimes",
        'Unsupported value: "Sometimes": supported values: Always, IfNotPresent, Never',
        ENUM,
    ),
    field("a command without a word", "command", [], "must have at least 1 item; add one or remove the field", FEW),
    field("a command of too many words", "command", ["x"] * 257, "Too many: 257: must have at most 256 items", MANY),
    field(
        "a word of the command that is too long",
        "command[0]",
        "x" * 4097,
        "Too long: 4097 characters: must have at most 4096 characters",
        LONG,
    ),
    field("too many arguments", "args", ["x"] * 257, "Too many: 257: must have at most 256 items", MANY),
    field(
        "a folder that is too long",
        "workingDir",
        "/" * 4097,
        "Too long: 4097 characters: must have at most 4096 characters",
        LONG,
    ),
)

_TRAINING: Final = (
    field("a program without a name", "training.program", "", "must have at least 1 character", SHORT),
    field(
        "a path for a program",
        "training.program",
        "./train.py",
        "must be the name of a built-in program, or package.module:Class",
        PATTERN,
    ),
    field("a ConfigMap of an odd name", "training.source.configMap.name", "My_Code", "must be a DNS", PATTERN),
    field(
        "a claim of an odd name",
        "training.source.persistentVolumeClaim.claimName",
        "C!",
        "must be a DNS subdomain: lower case letters, digits, '-' and '.', with a letter or digit first and last",
        PATTERN,
    ),
    field(
        "a folder of a claim from its root",
        "training.source.persistentVolumeClaim.directory",
        "/code",
        "must be a relative path",
        PATTERN,
        **code(persistentVolumeClaim={"claimName": "c"}),
    ),
    field(
        "a repository that is no URL",
        "training.source.git.repository",
        "team/code",
        "must be a URL (https, ssh, git) or user@host:path",
        PATTERN,
    ),
    field(
        "a revision that is an option",
        "training.source.git.revision",
        "-f",
        "must be a commit, tag or branch, without spaces and not beginning with '-'",
        PATTERN,
        **git(),
    ),
    field(
        "a revision without a name",
        "training.source.git.revision",
        "",
        "must have at least 1 character",
        SHORT,
        **git(),
    ),
    field(
        "a folder of a repository from /",
        "training.source.git.directory",
        "/",
        "must be a relative path",
        PATTERN,
        **git(),
    ),
)

_CHECKPOINT: Final = (
    field(
        "checkpoints in a relative path",
        "checkpoint.directory",
        "ckpt",
        "must be an absolute path or a URL, with no other placeholders than {name}, {namespace} and {uid}",
        PATTERN,
    ),
    field(
        "an unknown placeholder",
        "checkpoint.directory",
        "/c/{job}",
        "must be an absolute path or a URL, with no other placeholders than {name}, {namespace} and {uid}",
        PATTERN,
    ),
    field("checkpoints nowhere", "checkpoint.directory", "", "must have at least 1 character", SHORT),
    field("checkpoints after no step", "checkpoint.everySteps", 0, "must be at least 1", AT_LEAST, **URL),
    field("checkpoints after no second", "checkpoint.everySeconds", 0, "must be at least 1", AT_LEAST, **URL),
    field(
        "checkpoints of which none is kept",
        "checkpoint.keep",
        0,
        "must be at least 1",
        AT_LEAST,
        **URL,
    ),
    field(
        "more checkpoints than any disk holds",
        "checkpoint.keep",
        1001,
        "must be at most 1000",
        AT_MOST,
        **URL,
    ),
    field("a checkpoint without a name", "checkpoint.restore", "", "must have at least 1 character", SHORT, **URL),
)

_EVALUATION: Final = (
    field("a mode of evaluation with a typo", "evaluation.mode", "Continous", "did you mean Continuous?", ENUM),
    field("evaluation on no replica", "evaluation.replicas", 0, "must be at least 1", AT_LEAST, **AFTER),
    field("a metric without a name", "evaluation.metric", "", "must have at least 1 character", SHORT, **AFTER),
    field("a goal in small letters", "evaluation.goal", "minimize", "did you mean Minimize?", ENUM, **AFTER),
    field("no time to evaluate", "evaluation.deadlineSeconds", 0, "must be at least 1", AT_LEAST, **AFTER),
    field(
        "a failure that is ignored",
        "evaluation.onFailure",
        "Ignore",
        'Unsupported value: "Ignore": supported values: Warn, FailJob',
        ENUM,
        **AFTER,
    ),
    field(
        "logs in a relative path",
        "tensorBoard.logDirectory",
        "logs",
        "must be an absolute path or a URL, with no other placeholders than {name}, {namespace} and {uid}",
        PATTERN,
    ),
    field("a TensorBoard without an image", "tensorBoard.image", "", "must have at least 1 character", SHORT, **AFTER),
    field(
        "a TensorBoard gone before", "tensorBoard.ttlSecondsAfterFinished", -1, "must be at least 0", AT_LEAST, **AFTER
    ),
    field(
        "a TensorBoard that asks for less",
        "tensorBoard.resources.requests.cpu",
        "-1",
        "must be a quantity, such as 2, 500m or 16Gi; quote fractions",
        PATTERN,
        **AFTER,
    ),
    field(
        "a TensorBoard of no size",
        "tensorBoard.resources.limits.memory",
        "x",
        "must be a quantity, such as 2, 500m or 16Gi; quote fractions",
        PATTERN,
        **AFTER,
    ),
)

_LIMITS: Final = (
    field("no time to start", "runPolicy.startDeadlineSeconds", 0, "must be at least 1", AT_LEAST),
    field("no time to run", "runPolicy.activeDeadlineSeconds", 0, "must be at least 1", AT_LEAST),
    field(
        "longer than there are numbers", "runPolicy.activeDeadlineSeconds", LARGE, "must be at most 2147483647", AT_MOST
    ),
    field(
        "no time for a step",
        "runPolicy.progressDeadlineSeconds",
        0,
        SECONDS,
        SECONDS,
    ),
    field(
        "a learnt deadline in small letters",
        "runPolicy.progressDeadlineSeconds",
        "auto",
        "must be a number of seconds of at least 1, or Auto",
        SECONDS,
    ),
    field("less than no restart", "runPolicy.backoffLimit", -1, "must be at least 0", AT_LEAST),
    field("restarts without end", "runPolicy.backoffLimit", 1001, "must be at most 1000", AT_MOST),
    field(
        "a clean-up that is a boolean",
        "runPolicy.cleanPodPolicy",
        False,
        "Unsupported value: false: supported values: Running, All, None",
        ENUM,
    ),
    field("too many failed pods to keep", "runPolicy.keepFailedPods", 101, "must be at most 100", AT_MOST),
    field("deleted before the end", "runPolicy.ttlSecondsAfterFinished", -1, "must be at least 0", AT_LEAST),
    field(
        "a manager without a domain",
        "runPolicy.managedBy",
        "kueue",
        "must be a domain-prefixed name, such as tfdist.dev/controller",
        PATTERN,
    ),
)

_FAILURES: Final = (
    field(
        "rules without a rule", "failurePolicy.rules", [], "must have at least 1 item; add one or remove the field", FEW
    ),
    field(
        "more rules than anyone reads",
        "failurePolicy.rules",
        [{"action": "Ignore", "onMessagePattern": "x"}] * 21,
        "Too many: 21: must have at most 20 items",
        MANY,
    ),
    field(
        "an action that does not exist",
        "failurePolicy.rules[0].action",
        "Retry",
        'Unsupported value: "Retry": supported values: FailJob, Restart, RestartWithoutCount, Ignore',
        ENUM,
        **RULE,
    ),
    field(
        "an operator of mathematics",
        f"{EXIT}.operator",
        "==",
        'Unsupported value: "==": supported values: In, NotIn',
        ENUM,
        **CODES,
    ),
    field("no exit code", f"{EXIT}.values", [], "must have at least 1 item; add one or remove the field", FEW, **CODES),
    field("an exit code that no process has", f"{EXIT}.values[1]", 256, "must be at most 255", AT_MOST, **CODES),
    field("no condition", CONDITION, [], "must have at least 1 item; add one or remove the field", FEW, **RULE),
    field("a condition without a type", f"{CONDITION}[0].type", "", "must have at least 1 character", SHORT, **RULE),
    field(
        "an empty pattern",
        "failurePolicy.rules[0].onMessagePattern",
        "",
        "must have at least 1 character",
        SHORT,
        **RULE,
    ),
    field(
        "a rule for no role",
        "failurePolicy.rules[0].roles",
        [],
        "must have at least 1 item; add one or remove the field",
        FEW,
        **RULE,
    ),
    field(
        "a rule for masters",
        "failurePolicy.rules[0].roles[0]",
        "master",
        'Unsupported value: "master": supported values: chief, worker, ps, evaluator, evaluation',
        ENUM,
        **RULE,
    ),
    field(
        "a rule twice for workers",
        "failurePolicy.rules[0].roles",
        ["worker"] * 2,
        "items 0 and 1",
        TWICE,
        **RULE,
    ),
)

_GANG: Final = (
    field(
        "a scheduler that is not known",
        "scheduling.gang",
        "Yunikorn",
        'Unsupported value: "Yunikorn": supported values: Auto, None, Native, Kueue, Volcano, Coscheduling',
        ENUM,
    ),
    field("a priority in capitals", "scheduling.priorityClassName", "HIGH", "must be a DNS", PATTERN),
    field(
        "a label with two slashes",
        "scheduling.topologyKey",
        "a/b/c",
        "must be a qualified name, such as cpu or nvidia.com/gpu",
        PATTERN,
    ),
)

_RUNTIME: Final = (
    field("memory growth as a string", "runtime.gpuMemoryGrowth", "yes", "must be true or false, without quotes", TYPE),
    field("a GPU without memory", "runtime.gpuMemoryLimitMiB", 0, "must be at least 1", AT_LEAST),
    field("a GPU below zero", "runtime.visibleDevices[0]", -1, "must be at least 0", AT_LEAST),
    field("a GPU twice", "runtime.visibleDevices", [0, 1, 0], 'Duplicate value: "0": items 0 and 2', TWICE),
    field("no thread within an operation", "runtime.intraOpThreads", 0, "must be at least 1", AT_LEAST),
    field("too many operations at a time", "runtime.interOpThreads", 4097, "must be at most 4096", AT_MOST),
    field(
        "placement logged at a level", "runtime.logDevicePlacement", 1, "must be true or false, without quotes", TYPE
    ),
    field(
        "a precision that TensorFlow lacks",
        "runtime.mixedPrecision",
        "fp8",
        'Unsupported value: "fp8": supported values: bfloat16, float16',
        ENUM,
    ),
    field("XLA as a boolean", "runtime.xla", True, "Unsupported value: true: supported values: Auto, On, Off", ENUM),
    field("deterministic as a number", "runtime.deterministic", 1, "must be true or false, without quotes", TYPE),
    field("a negative seed", "runtime.seed", -1, "must be at least 0", AT_LEAST),
    field(
        "a collective in capitals",
        "runtime.collective",
        "RING",
        'Unsupported value: "RING": supported values: Auto, Ring, NCCL; did you mean Ring?',
        ENUM,
    ),
)

CASES: Final[tuple[Bad, ...]] = (
    *_JOB,
    *_TRAINING,
    *_CHECKPOINT,
    *_EVALUATION,
    *_LIMITS,
    *_FAILURES,
    *_GANG,
    *_RUNTIME,
)
