"""Every reason of a condition or event is a documented constant."""

import ast
import json
import pathlib

import orjson

import tfdist
import tfdist_operator
from tfdist.api.status import ConditionType
from tfdist.reasons import ConditionReason, EventReason

PACKAGES = [pathlib.Path(path) for package in (tfdist, tfdist_operator) for path in package.__path__]
CALLS = {"Condition": 2, "Event": 0, "Failure": 0, "not_ready": 0}
"""Position of the reason among the arguments."""


def test_no_reason_is_a_literal_in_the_code() -> None:
    literals = []
    for path in [file for package in PACKAGES for file in package.rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            name = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
            if name in CALLS and isinstance(node, ast.Call) and len(node.args) > CALLS[name]:
                reason = node.args[CALLS[name]]
                literals += [(path.name, reason.value)] if isinstance(reason, ast.Constant) else []
    assert literals == []


def test_every_row_names_conditions_that_exist_and_a_type_of_event() -> None:
    kinds = {str(kind) for kind in ConditionType}
    for reason in ConditionReason:
        named = {word.strip("`,").partition("=")[0] for word in reason.types.split() if word.startswith("`")}
        assert named - {"False", "True"} <= kinds, reason
    assert {reason.types.partition(";")[0] for reason in EventReason} == {"Normal", "Warning"}


def test_a_reason_is_its_text_wherever_it_is_stored() -> None:
    assert f"{ConditionReason.ALL_REPLICAS_RUNNING}" == "AllReplicasRunning"
    assert json.loads(orjson.dumps(ConditionReason.ALL_REPLICAS_RUNNING)) == "AllReplicasRunning"
