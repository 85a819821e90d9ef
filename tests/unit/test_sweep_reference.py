"""The reference page of sweeps has every field, its links resolve, and it is up to date."""

import pathlib
import re
from collections.abc import Iterator
from typing import Any, Final

import pytest
import yaml

from tfdist.api.crd import SWEEP, structural
from tfdist.api.sweep import TFDistSweep
from tfdist.api.sweep_resource import SWEEP_LABEL, TRIAL_LABEL
from tfdist.api.transitions import SWEEP_TRANSITION_RULES

ROOT: Final = pathlib.Path(__file__).resolve().parents[2]
FILE: Final = ROOT / "docs" / "reference" / "sweep.md"
PAGE: Final = FILE.read_text(encoding="utf-8")
TITLES: Final = re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", PAGE, flags=re.DOTALL), flags=re.MULTILINE)


def section(title: str) -> str:
    """The text between a title and the next one."""
    found = re.search(rf"^#+ {re.escape(title)}\n(.*?)(?=^#|\Z)", PAGE, flags=re.MULTILINE | re.DOTALL)
    assert found, f"no section {title}"
    return found[1]


def fields(schema: dict[str, Any], path: str) -> Iterator[tuple[str, str]]:
    """Every field of a schema, with the title of its object; those of a job are on the page of jobs."""
    for name, node in schema.get("properties", {}).items():
        yield path, name
        if f"{path}.{name}" != "spec.template.spec":
            yield from fields(node, f"{path}.{name}")
            yield from fields(node.get("items", {}), f"{path}.{name}[]")


@pytest.mark.parametrize("path", ["spec", "status"])
def test_every_field_is_in_the_table_of_its_object(path: str) -> None:
    found = list(fields(structural(SWEEP.spec if path == "spec" else SWEEP.status), path))
    titles = {"spec": "Spec", "status": "Status"}
    assert [(t, n) for t, n in found if f"| `{n}` |" not in section(titles.get(t, f"`{t}`"))] == []


def test_the_job_of_the_template_is_a_link_to_its_page() -> None:
    assert "| `spec` | [object](api.md#spec) | *required* |" in section("`spec.template`")


def test_every_link_resolves() -> None:
    anchors = {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in TITLES}
    for target in re.findall(r"\]\(([^)]+)\)", PAGE):
        file, _, anchor = target.partition("#")
        assert anchor in anchors if not file else (FILE.parent / file).exists(), target


def test_every_rule_is_listed_with_its_message() -> None:
    models = [SWEEP.spec, *(f.annotation for f in SWEEP.spec.model_fields.values())]
    rules = [rule.message for model in models for rule in getattr(model, "cross_field_rules", ())]
    assert rules
    listed = [*rules, *(rule["message"] for rule in SWEEP_TRANSITION_RULES)]
    assert [message for message in listed if message not in PAGE] == []


def test_the_labels_and_columns_are_those_of_the_code() -> None:
    assert all(f"| `{label}` |" in section("Labels") for label in (SWEEP_LABEL, TRIAL_LABEL))
    shown = re.findall(r"^\| ([\w-]+) \| `", section("Columns of `kubectl get`"), flags=re.MULTILINE)
    assert shown == [name for name, *_ in SWEEP.columns]


def test_the_example_at_the_top_is_valid() -> None:
    example = re.search(r"```yaml\n(.*?)```", PAGE, flags=re.DOTALL)
    assert example
    assert TFDistSweep.model_validate(yaml.safe_load(example[1])).spec.parameters
