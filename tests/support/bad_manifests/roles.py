"""Errors in the fields of one role: the message has the role's name and the role's own bounds."""

from typing import Final

from support.bad_manifests.case import AT_LEAST, AT_MOST, ENUM, LONG, PATTERN, SHORT, TWICE, TYPE, UNKNOWN, Bad, field
from support.factories import CHECKPOINT

PS: Final = {"strategy": "ParameterServer", "chief": {}}

CASES: Final[tuple[Bad, ...]] = (
    field("two chiefs", "chief.replicas", 2, "must be at most 1", AT_MOST),
    field("less than no chief", "chief.replicas", -1, "must be at least 0", AT_LEAST),
    field("no worker", "worker.replicas", 0, "must be at least 1", AT_LEAST),
    field("more workers than any cluster has", "worker.replicas", 10001, "must be at most 10000", AT_MOST),
    field("no replica of the parameter servers", "ps.replicas", 0, "must be at least 1", AT_LEAST, **PS),
    field("two evaluators", "evaluator.replicas", 2, "must be at most 1", AT_MOST, checkpoint=CHECKPOINT),
    field(
        "a chief's pull policy",
        "chief.imagePullPolicy",
        "always",
        'Unsupported value: "always": supported values: Always, IfNotPresent, Never; did you mean Always?',
        ENUM,
    ),
    field("a chief without an image", "chief.image", "", "must have at least 1 character", SHORT),
    field("a worker's command in one line", "worker.command", "python train.py", "must be a list", TYPE),
    field(
        "a worker's folder that is too long",
        "worker.workingDir",
        "/" * 4097,
        "Too long: 4097 characters: must have at most 4096 characters",
        LONG,
    ),
    field("a worker's odd variable", "worker.env[0].name", "A=B", "must be a name without '='", PATTERN),
    field("a worker's variable twice", "worker.env", [{"name": "A"}, {"name": "A"}], "items 0 and 1", TWICE),
    field(
        "an amount of a parameter server",
        "ps.resources.limits.cpu",
        "2 cores",
        "must be a quantity, such as 2, 500m or 16Gi; quote fractions",
        PATTERN,
        ps={},
        **PS,
    ),
    field("a typo in the evaluator", "evaluator.imge", "x", "unknown field; did you mean image?", UNKNOWN),
    field(
        "parameter servers with a port",
        "ps.port",
        2222,
        "unknown field; see `kubectl explain tfdistjob.spec.ps`",
        UNKNOWN,
        ps={},
        **PS,
    ),
)
