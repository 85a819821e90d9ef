"""Values out of bounds in the policies, the scheduling and the runtime of a job, field by field."""

from typing import Any, Final

from support.bad_manifests.case import (
    AT_LEAST,
    AT_MOST,
    ENUM,
    FEW,
    MANY,
    PATTERN,
    SHORT,
    TWICE,
    TYPE,
    Bad,
    field,
)

LARGE: Final = 2**31
SECONDS: Final = "must be a number of seconds of at least 1, or Auto"
RULE: Final[dict[str, Any]] = {"failurePolicy": {"rules": [{"action": "FailJob", "onMessagePattern": "OOM"}]}}
CODES: Final[dict[str, Any]] = {
    "failurePolicy": {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1]}}]}
}
EXIT: Final = "failurePolicy.rules[0].onExitCodes"
INTERFACES: Final = "runtime.network.interfaces"
EXCLUSIVE: Final = "gpuMemoryFraction and gpuMemoryLimitMiB are mutually exclusive; keep one of them"
CONDITION: Final = "failurePolicy.rules[0].onPodConditions"

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
        'Unsupported value: "Retry": supported values: FailJob, Restart, RestartWithoutCount, AvoidNode, Ignore',
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
    field("no part of a GPU", "runtime.gpuMemoryFraction", 0.0, "must be greater than 0", "should be greater than 0"),
    field("more than a GPU", "runtime.gpuMemoryFraction", 1.5, "must be at most 1", AT_MOST),
    field(
        "two limits of GPU memory",
        "runtime.gpuMemoryFraction",
        0.5,
        EXCLUSIVE,
        EXCLUSIVE,
        runtime={"gpuMemoryLimitMiB": 1024},
    ),
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
    field("TensorFloat-32 as a number", "runtime.tensorFloat32", 0, "must be true or false, without quotes", TYPE),
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
    field("no interface", INTERFACES, [], "must have at least 1 item; add one or remove the field", FEW),
    field("an interface twice", INTERFACES, ["eth0", "eth0"], 'Duplicate value: "eth0": items 0 and 1', TWICE),
    field(
        "two interfaces in a text", f"{INTERFACES}[0]", "eth0,eth1", "must be a name of a network interface", PATTERN
    ),
    field("NCCL's level as debug", "runtime.network.debug", "INFO", "must be true or false, without quotes", TYPE),
)

CASES: Final[tuple[Bad, ...]] = (*_LIMITS, *_FAILURES, *_GANG, *_RUNTIME)
