"""Mistakes in the fields of one role: told with the role's name, and with the role's own bounds."""

from typing import Final

from support.bad_manifests.case import AT_LEAST, AT_MOST, ENUM, LONG, PATTERN, SHORT, TWICE, TYPE, UNKNOWN, Bad, field
from support.factories import CHECKPOINT

PS: Final = {"strategy": "ParameterServer", "chief": {}}

CASES: Final[tuple[Bad, ...]] = (
    field("two chiefs", "chief.replicas", 2, "write a number of at most 1; got 2", AT_MOST),
    field("less than no chief", "chief.replicas", -1, "write a number of at least 0; got -1", AT_LEAST),
    field("no worker", "worker.replicas", 0, "write a number of at least 1; got 0", AT_LEAST),
    field("more workers than any cluster has", "worker.replicas", 10001, "write a number of at most 10000", AT_MOST),
    field("no replica of the parameter servers", "ps.replicas", 0, "write a number of at least 1", AT_LEAST, **PS),
    field("two evaluators", "evaluator.replicas", 2, "write a number of at most 1", AT_MOST, checkpoint=CHECKPOINT),
    field(
        "a chief's pull policy", "chief.imagePullPolicy", "always", "did you mean Always? write 'Always', 'IfN", ENUM
    ),
    field("a chief without an image", "chief.image", "", "write at least 1 character; got ''", SHORT),
    field("a worker's command in one line", "worker.command", "python train.py", "write a list; got", TYPE),
    field("a worker's folder that is too long", "worker.workingDir", "/" * 4097, "write at most 4096", LONG),
    field("a worker's odd variable", "worker.env[0].name", "A=B", "write a name without =; got 'A=B'", PATTERN),
    field("a worker's variable twice", "worker.env", [{"name": "A"}, {"name": "A"}], "items 0 and 1 are both", TWICE),
    field(
        "an amount of a parameter server", "ps.resources.limits.cpu", "2 cores", "write an amount", PATTERN, ps={}, **PS
    ),
    field("a typo in the evaluator", "evaluator.imge", "x", "unknown field; did you mean image?", UNKNOWN),
    field(
        "parameter servers with a port",
        "ps.port",
        2222,
        "unknown field; `kubectl explain tfdistjob.spec.ps`",
        UNKNOWN,
        ps={},
        **PS,
    ),
)
