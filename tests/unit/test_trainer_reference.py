"""The reference of the programs' configuration: up to date, and every field has a meaning."""

import pathlib
from typing import Any, Final

import pytest
from support import generators

ROOT: Final = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def generator() -> dict[str, Any]:
    return generators.generator("trainer_reference")


def test_every_field_has_a_type_and_a_meaning(generator: dict[str, Any]) -> None:
    rows = [line.split(" | ") for line in generator["page"]().splitlines() if line.startswith("| `")]
    assert len(rows) > 50
    for row in rows:
        assert row[1].strip(), row
        assert len(row[3].strip(" |")) > 10, row
