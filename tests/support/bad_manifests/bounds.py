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
SECONDS: Final = "write a number of seconds from 1, or Auto"
URL: Final[dict[str, Any]] = {"checkpoint": {"directory": "gs://bucket/ckpt"}}
ELASTIC: Final[dict[str, Any]] = {"elastic": {"minWorkers": 1}}
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
    field("a strategy with a typo", "strategy", "Mirored", "did you mean Mirrored? write 'MultiWorkerMirrored'", ENUM),
    field("a task in small letters", "task", "train", "did you mean Train? write 'Train' or 'Evaluate'", ENUM),
    field("a success policy of nobody", "successPolicy", "Anyone", "write 'Chief' or 'AllWorkers'", ENUM),
    field("a network policy as a boolean", "networkPolicy", True, "write 'Enabled' or 'Disabled'; got true", ENUM),
    field("an image without a name", "image", "", "write at least 1 character; got ''", SHORT),
    field("an image with a novel for a name", "image", "x" * 1025, "write at most 1024 characters; got 1025", LONG),
    field("a pull policy that does not exist", "imagePullPolicy", "Sometimes", "write 'Always', 'IfNotPres", ENUM),
    field("a command without a word", "command", [], "write at least 1 entry, or remove the field; got []", FEW),
    field("a command of too many words", "command", ["x"] * 257, "write at most 256 entries; got 257", MANY),
    field("a word of the command that is too long", "command[0]", "x" * 4097, "write at most 4096 characters", LONG),
    field("too many arguments", "args", ["x"] * 257, "write at most 256 entries; got 257", MANY),
    field("a folder that is too long", "workingDir", "/" * 4097, "write at most 4096 characters; got 4097", LONG),
)

_TRAINING: Final = (
    field("a program without a name", "training.program", "", "write at least 1 character", SHORT),
    field("a path for a program", "training.program", "./train.py", "write the name of a built-in program", PATTERN),
    field("a ConfigMap of an odd name", "training.source.configMap.name", "My_Code", "write small letters", PATTERN),
    field("a claim of an odd name", "training.source.persistentVolumeClaim.claimName", "C!", "write small le", PATTERN),
    field(
        "a folder of a claim from its root",
        "training.source.persistentVolumeClaim.directory",
        "/code",
        "write a path that does not begin with /; got '/code'",
        PATTERN,
        **code(persistentVolumeClaim={"claimName": "c"}),
    ),
    field("a repository that is no URL", "training.source.git.repository", "team/code", "write a URL (https,", PATTERN),
    field(
        "a revision that is an option", "training.source.git.revision", "-f", "write a commit, tag", PATTERN, **git()
    ),
    field("a revision without a name", "training.source.git.revision", "", "write at least 1 char", SHORT, **git()),
    field(
        "a folder of a repository from /", "training.source.git.directory", "/", "write a path that", PATTERN, **git()
    ),
)

_CHECKPOINT: Final = (
    field("checkpoints in a relative path", "checkpoint.directory", "ckpt", "write an absolute path or a URL", PATTERN),
    field("an unknown placeholder", "checkpoint.directory", "/c/{job}", "write an absolute path or a URL", PATTERN),
    field("checkpoints nowhere", "checkpoint.directory", "", "write at least 1 character", SHORT),
    field(
        "checkpoints after no step", "checkpoint.everySteps", 0, "write a number of at least 1; got 0", AT_LEAST, **URL
    ),
    field("checkpoints after no second", "checkpoint.everySeconds", 0, "write a number of at least 1", AT_LEAST, **URL),
    field(
        "checkpoints of which none is kept",
        "checkpoint.keep",
        0,
        "write a number of at least 1; got 0",
        AT_LEAST,
        **URL,
    ),
    field(
        "more checkpoints than any disk holds",
        "checkpoint.keep",
        1001,
        "write a number of at most 1000",
        AT_MOST,
        **URL,
    ),
    field("a checkpoint without a name", "checkpoint.restore", "", "write at least 1 character", SHORT, **URL),
)

_EVALUATION: Final = (
    field("a mode of evaluation with a typo", "evaluation.mode", "Continous", "did you mean Continuous?", ENUM),
    field("evaluation on no replica", "evaluation.replicas", 0, "write a number of at least 1", AT_LEAST, **AFTER),
    field("a metric without a name", "evaluation.metric", "", "write at least 1 character", SHORT, **AFTER),
    field("a goal in small letters", "evaluation.goal", "minimize", "did you mean Minimize?", ENUM, **AFTER),
    field("no time to evaluate", "evaluation.deadlineSeconds", 0, "write a number of at least 1", AT_LEAST, **AFTER),
    field("a failure that is ignored", "evaluation.onFailure", "Ignore", "write 'Warn' or 'FailJob'", ENUM, **AFTER),
    field("logs in a relative path", "tensorBoard.logDirectory", "logs", "write an absolute path or a URL", PATTERN),
    field("a TensorBoard without an image", "tensorBoard.image", "", "write at least 1 character", SHORT, **AFTER),
    field(
        "a TensorBoard gone before", "tensorBoard.ttlSecondsAfterFinished", -1, "write a number of", AT_LEAST, **AFTER
    ),
    field(
        "a TensorBoard that asks for less",
        "tensorBoard.resources.requests.cpu",
        "-1",
        "write an amount",
        PATTERN,
        **AFTER,
    ),
    field("a TensorBoard of no size", "tensorBoard.resources.limits.memory", "x", "write an amount", PATTERN, **AFTER),
)

_LIMITS: Final = (
    field("no time to start", "runPolicy.startDeadlineSeconds", 0, "write a number of at least 1; got 0", AT_LEAST),
    field("no time to run", "runPolicy.activeDeadlineSeconds", 0, "write a number of at least 1; got 0", AT_LEAST),
    field("longer than there are numbers", "runPolicy.activeDeadlineSeconds", LARGE, "write a number of at m", AT_MOST),
    field(
        "no time for a step",
        "runPolicy.progressDeadlineSeconds",
        0,
        "write a number of seconds from 1, or Auto",
        SECONDS,
    ),
    field(
        "a learnt deadline in small letters",
        "runPolicy.progressDeadlineSeconds",
        "auto",
        "write a number of sec",
        SECONDS,
    ),
    field("less than no restart", "runPolicy.backoffLimit", -1, "write a number of at least 0; got -1", AT_LEAST),
    field("restarts without end", "runPolicy.backoffLimit", 1001, "write a number of at most 1000", AT_MOST),
    field("a clean-up that is a boolean", "runPolicy.cleanPodPolicy", False, "write 'Running', 'All' or 'None'", ENUM),
    field("too many failed pods to keep", "runPolicy.keepFailedPods", 101, "write a number of at most 100", AT_MOST),
    field("deleted before the end", "runPolicy.ttlSecondsAfterFinished", -1, "write a number of at least 0", AT_LEAST),
    field("a manager without a domain", "runPolicy.managedBy", "kueue", "write a domain and a name, such as", PATTERN),
)

_FAILURES: Final = (
    field("rules without a rule", "failurePolicy.rules", [], "write at least 1 entry", FEW),
    field(
        "more rules than anyone reads",
        "failurePolicy.rules",
        [{"action": "Ignore", "onMessagePattern": "x"}] * 21,
        "write at most 20 entries; got 21",
        MANY,
    ),
    field(
        "an action that does not exist",
        "failurePolicy.rules[0].action",
        "Retry",
        "did you mean Restart? write 'FailJob', 'Restart'",
        ENUM,
        **RULE,
    ),
    field("an operator of mathematics", f"{EXIT}.operator", "==", "write 'In' or 'NotIn'; got '=='", ENUM, **CODES),
    field("no exit code", f"{EXIT}.values", [], "write at least 1 entry", FEW, **CODES),
    field(
        "an exit code that no process has", f"{EXIT}.values[1]", 256, "write a number of at most 255", AT_MOST, **CODES
    ),
    field("no condition", CONDITION, [], "write at least 1 entry", FEW, **RULE),
    field("a condition without a type", f"{CONDITION}[0].type", "", "write at least 1 character", SHORT, **RULE),
    field(
        "an empty pattern", "failurePolicy.rules[0].onMessagePattern", "", "write at least 1 character", SHORT, **RULE
    ),
    field("a rule for no role", "failurePolicy.rules[0].roles", [], "write at least 1 entry", FEW, **RULE),
    field("a rule for masters", "failurePolicy.rules[0].roles[0]", "master", "write 'chief', 'worker'", ENUM, **RULE),
    field(
        "a rule twice for workers",
        "failurePolicy.rules[0].roles",
        ["worker"] * 2,
        "items 0 and 1 are both",
        TWICE,
        **RULE,
    ),
    field(
        "memory that does not grow",
        "oomPolicy.memoryFactor",
        1,
        "write a number above 1; got 1",
        "should be greater than 1",
    ),
    field("memory that explodes", "oomPolicy.memoryFactor", 11, "write a number of at most 10; got 11", AT_MOST),
    field("a most of memory in words", "oomPolicy.maxMemory", "lots", "write an amount, such as 2, 500m", PATTERN),
)

_GANG: Final = (
    field("elastic down to nothing", "elastic.minWorkers", 0, "write a number of at least 1; got 0", AT_LEAST),
    field("elastic without end", "elastic.maxWorkers", 10001, "write a number of at most 10000", AT_MOST, **ELASTIC),
    field("a scheduler that is not known", "scheduling.gang", "Yunikorn", "write 'Auto', 'None', 'Native'", ENUM),
    field("a queue with a space", "scheduling.queue", "team a", "write small letters, digits, dashes", PATTERN),
    field("a priority in capitals", "scheduling.priorityClassName", "HIGH", "write small letters", PATTERN),
    field("a gang of none", "scheduling.minAvailable", 0, "write a number of at least 1; got 0", AT_LEAST),
    field("a label with two slashes", "scheduling.topologyKey", "a/b/c", "write a name such as", PATTERN),
    field("no time to wait", "scheduling.timeoutSeconds", 0, "write a number of at least 1; got 0", AT_LEAST),
)

_RUNTIME: Final = (
    field("memory growth in words", "runtime.gpuMemoryGrowth", "yes", "write true or false, without quotes", TYPE),
    field("a GPU without memory", "runtime.gpuMemoryLimitMiB", 0, "write a number of at least 1; got 0", AT_LEAST),
    field("a GPU below zero", "runtime.visibleDevices[0]", -1, "write a number of at least 0", AT_LEAST),
    field("a GPU twice", "runtime.visibleDevices", [0, 1, 0], "items 0 and 2 are both '0'; keep one", TWICE),
    field("no thread within an operation", "runtime.intraOpThreads", 0, "write a number of at least 1", AT_LEAST),
    field("too many operations at a time", "runtime.interOpThreads", 4097, "write a number of at most 4096", AT_MOST),
    field("placement logged at a level", "runtime.logDevicePlacement", 1, "write true or false, without quot", TYPE),
    field("a precision that TensorFlow lacks", "runtime.mixedPrecision", "fp8", "write 'bfloat16' or 'float16'", ENUM),
    field("XLA as a boolean", "runtime.xla", True, "write 'Auto', 'On' or 'Off'; got true", ENUM),
    field("deterministic as a number", "runtime.deterministic", 1, "write true or false", TYPE),
    field("a negative seed", "runtime.seed", -1, "write a number of at least 0; got -1", AT_LEAST),
    field("a collective in capitals", "runtime.collective", "RING", "did you mean Ring? write 'Auto'", ENUM),
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
