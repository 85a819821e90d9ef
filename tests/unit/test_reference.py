"""The reference page has every field, its links resolve, and it is up to date."""

import pathlib
import re
from collections.abc import Iterator
from typing import Any, Final

import pytest
import yaml
from support.generators import generator
from support.samples import SAMPLES, sample

from tfdist.api.base import ApiModel
from tfdist.api.crd import crd, structural
from tfdist.api.pod_fields import PodFields
from tfdist.api.status import TFDistJobStatus
from tfdist.api.transitions import TRANSITION_RULES
from tfdist.api.v1 import TFDistJobSpec
from tfdist.desired.objects import objects
from tfdist.validation import parse

ROOT = pathlib.Path(__file__).resolve().parents[2]
FILE = ROOT / "docs" / "reference" / "api.md"
GENERATOR: Final = generator("reference")
PAGE: Final = FILE.read_text(encoding="utf-8")
TITLES: Final = re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", PAGE, flags=re.DOTALL), flags=re.MULTILINE)


def section(title: str) -> str:
    """The text between a title and the next one."""
    found = re.search(rf"^#+ {re.escape(title)}\n(.*?)(?=^#|\Z)", PAGE, flags=re.MULTILINE | re.DOTALL)
    assert found, f"no section {title}"
    return found[1]


def fields(schema: dict[str, Any], path: str) -> Iterator[tuple[str, str]]:
    """Every field of a schema, with the path of the object that has it, as titles write it."""
    for name, node in schema.get("properties", {}).items():
        yield path, name
        yield from fields(node, f"{path}.{name}")
        yield from fields(node.get("items", {}), f"{path}.{name}[]")
        if isinstance(node.get("additionalProperties"), dict):
            yield from fields(node["additionalProperties"], f"{path}.{name}{{}}")


def without_shared(path: str) -> str:
    """The path under which the page has an object that occurs in several places."""
    short = "|".join(f.alias or "" for f in PodFields.model_fields.values())
    path = re.sub(rf"^spec\.(?:(?:chief|worker|ps|evaluator|tensorBoard)\.)?(?=(?:{short})\b)", "", path)
    path = re.sub(r"(template\.spec)\.(initContainers|volumes)\[\]", r"\1.containers[]", path)
    path = re.sub(r"(networkPolicyIngress\[\]\.from\[\])\.namespaceSelector", r"\1.podSelector", path)
    path = re.sub(r"(status\.export)\.best", r"\1.final", path)
    return re.sub(r"(status\.evaluation)\.(best|final)", r"\1.latest", path)


@pytest.mark.parametrize(("model", "path"), [(TFDistJobSpec, "spec"), (TFDistJobStatus, "status")])
def test_every_field_is_in_the_table_of_its_object(model: type[ApiModel], path: str) -> None:
    missing = []
    for place, name in fields(structural(model), path):
        title = without_shared(place)
        texts = [section(title.title() if title == path else f"`{title}`")]
        if place == "spec" or re.fullmatch(r"spec\.(chief|worker|ps|evaluator)", place):
            texts.append(section("Pod fields"))
        if not any(f"| `{name}` |" in text for text in texts):
            missing.append(f"{place}.{name}")
    assert missing == []


def test_titles_are_unique() -> None:
    assert sorted(set(TITLES)) == sorted(TITLES)


def test_every_link_resolves() -> None:
    anchors = {GENERATOR["anchor"](title) for title in TITLES}
    for target in re.findall(r"\]\(([^)]+)\)", PAGE):
        file, _, anchor = target.partition("#")
        assert anchor in anchors if not file else (FILE.parent / file).exists(), target


def test_every_rule_is_listed_with_its_message() -> None:
    rules = [rule for node in nodes(structural(TFDistJobSpec)) for rule in node.get("x-kubernetes-validations", ())]
    messages = [rule["message"].removeprefix("must be ") for rule in (*rules, *TRANSITION_RULES)]
    assert [message for message in messages if message[1:] not in PAGE] == []


def nodes(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Every object of a schema."""
    yield schema
    for child in (*schema.get("properties", {}).values(), schema.get("items"), schema.get("additionalProperties")):
        if isinstance(child, dict):
            yield from nodes(child)


def test_every_column_of_kubectl_get_is_listed() -> None:
    columns = crd()["spec"]["versions"][0]["additionalPrinterColumns"]
    assert [c["name"] for c in columns if f"| {c['name']} |" not in section("Columns of `kubectl get`")] == []


OWN_VARIABLES = {"gpu-efa", "gpu-infiniband", "merge-levels", "secrets-in-env", "sidecar-and-template"}
"""Samples with variables of their own."""


def test_the_labels_variables_and_ports_are_those_of_the_rendered_pods() -> None:
    pods = [
        made
        for name in SAMPLES
        if name not in OWN_VARIABLES
        for made in objects(parse(sample(name)), "tfdist/trainer:dev")
        if made["kind"] == "Pod"
    ]
    containers = [pod["spec"]["containers"][0] for pod in pods]
    assert listed("Labels") == {label for pod in pods for label in pod["metadata"]["labels"]}
    assert listed("Environment variables") == {v["name"] for c in containers for v in c["env"]}
    ports = {(str(port["containerPort"]), port["name"]) for c in containers for port in c["ports"]}
    assert ports == set(re.findall(r"^\| (\d+) \| `(.+?)` \|", section("Ports"), flags=re.MULTILINE))


def listed(title: str) -> set[str]:
    """The first column of a section's table."""
    return set(re.findall(r"^\| `(.+?)` \|", section(title), flags=re.MULTILINE))


def test_the_example_at_the_top_is_valid() -> None:
    example = re.search(r"```yaml\n(.*?)```", PAGE, flags=re.DOTALL)
    assert example
    assert parse(yaml.safe_load(example[1])).spec.training
