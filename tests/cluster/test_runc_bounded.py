"""Capabilities: read from the kernel's mask, trimmed in specifications, and nothing else is changed."""

import json
from pathlib import Path

import pytest

from tfdist_cluster import runc_bounded

ALL = "CapBnd:\t000001ffffffffff\n"
WITHOUT_RESOURCE = "Name:\tx\nCapEff:\t0000000000000000\nCapBnd:\t000001fffeffffff\n"


def test_the_bounding_set_is_read_by_bit_number() -> None:
    assert runc_bounded.bounding_set("CapBnd:\t0000000000000003\n") == {"CAP_CHOWN", "CAP_DAC_OVERRIDE"}
    assert len(runc_bounded.bounding_set(ALL)) == 41


@pytest.mark.parametrize(
    ("status", "last", "lacking"),
    [
        pytest.param(ALL, 40, [], id="nothing is missing"),
        pytest.param(WITHOUT_RESOURCE, 40, ["CAP_SYS_RESOURCE"], id="one capability is missing"),
        pytest.param("CapBnd:\t000000ffffffffff\n", 39, [], id="an old kernel does not know the last one"),
    ],
)
def test_missing(status: str, last: int, lacking: list[str]) -> None:
    assert runc_bounded.missing(status, last) == lacking


def test_trimming_keeps_order_and_everything_else() -> None:
    asked = {"bounding": ["CAP_SYS_RESOURCE", "CAP_KILL", "CAP_CHOWN"], "ambient": None}
    assert runc_bounded.trimmed({"args": ["sh"], "capabilities": asked}, frozenset({"CAP_CHOWN", "CAP_KILL"})) == {
        "args": ["sh"],
        "capabilities": {"bounding": ["CAP_KILL", "CAP_CHOWN"], "ambient": []},
    }


@pytest.mark.parametrize("whole", [True, False])
def test_a_file_is_rewritten(tmp_path: Path, *, whole: bool) -> None:
    process = {"capabilities": {"effective": ["CAP_SYS_RESOURCE", "CAP_KILL"]}}
    path = tmp_path / "config.json"
    path.write_text(json.dumps(process if whole else {"process": process, "root": {}}))
    runc_bounded.trim_file(path, frozenset({"CAP_KILL"}), whole=whole)
    expected = {"capabilities": {"effective": ["CAP_KILL"]}}
    assert json.loads(path.read_text()) == (expected if whole else {"process": expected, "root": {}})


@pytest.mark.parametrize(
    ("arguments", "value"),
    [
        (["create", "--bundle", "/b", "id"], "/b"),
        (["create", "--bundle=/b", "id"], "/b"),
        (["create", "-b", "/b", "id"], "/b"),
        (["create", "id"], None),
        (["create", "--bundle"], None),
    ],
)
def test_options_in_every_spelling(arguments: list[str], value: str | None) -> None:
    assert runc_bounded.option(arguments, "--bundle", "-b") == value
