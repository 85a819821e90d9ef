"""The pods of a converted TFJob are those of the TFJob, whatever its replica types have in common."""

from typing import Any

from hypothesis import assume, given, settings
from support import effective
from support.tfjob_strategies import ROLES, replica_types
from support.tfjobs import tfjob

from tfdist.convert import convert
from tfdist.validation import ValidationFailed, parse

Json = dict[str, Any]


def is_valid(manifest: Json) -> bool:
    try:
        parse(manifest)
    except ValidationFailed:
        return False
    return True


@given(replica_types())
@settings(max_examples=200)
def test_the_pods_of_every_role_are_unchanged(drawn: Json) -> None:
    made = convert(tfjob(drawn)).manifest
    assume(is_valid(made))
    for key, replicas in drawn.items():
        assert effective.of_role(made, ROLES[key]) == effective.of_tfjob(replicas["template"])
