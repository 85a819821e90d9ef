"""The examples: each is a valid job with a description, and every row of the requirements has one."""

import pathlib
import re

import pytest
import yaml
from support.examples import FOLDER, MANIFESTS, job, text

from tfdist.desired.objects import objects
from tfdist.validation import parse
from tfdist.validation.sweep import parse_sweep
from tfdist_demo import manifests

README = (FOLDER / "README.md").read_text(encoding="utf-8")
SCRIPTS = [name for name in MANIFESTS if name.endswith("/job.yaml")]


@pytest.mark.parametrize("name", MANIFESTS)
def test_an_example_is_a_valid_job_of_the_demonstrations_namespace(name: str) -> None:
    parsed = parse(job(name))
    assert parsed.metadata.namespace == manifests.NAMESPACE
    assert any(made["kind"] == "Pod" for made in objects(parsed, "tfdist/trainer:dev"))


@pytest.mark.parametrize("name", MANIFESTS)
def test_an_example_begins_with_what_it_shows_and_how_to_run_it(name: str) -> None:
    head = text(name).split("apiVersion:")[0].splitlines()
    assert len(head) >= 2
    assert all(line.startswith("# ") for line in head)
    assert any(re.search(r"`?make demo", line) for line in head)


@pytest.mark.parametrize("name", MANIFESTS)
def test_an_example_reads_only_volumes_that_the_demonstration_fills_and_its_own_program(name: str) -> None:
    spec = job(name)["spec"]
    for volume in spec.get("volumes", ()):
        claim = volume.get("persistentVolumeClaim", {}).get("claimName")
        assert claim in {manifests.CLAIM, manifests.EXAMPLES_CLAIM} or "configMap" in volume


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_program_is_in_the_config_map_that_the_job_names(name: str) -> None:
    folder = (FOLDER / name).parent
    made = yaml.safe_load((folder / "kustomization.yaml").read_text())
    [config_map] = made["configMapGenerator"]
    spec = job(name)["spec"]
    source = spec.get("training", {}).get("source", {})
    named = [source, *spec.get("volumes", ())]
    assert {"name": config_map["name"]} in [where.get("configMap") for where in named]
    assert made["namespace"] == manifests.NAMESPACE
    assert all((folder / file).is_file() for file in config_map["files"])


@pytest.mark.parametrize("path", sorted((FOLDER / "sweep").glob("*.yaml")), ids=lambda path: path.name)
def test_an_example_of_a_sweep_is_valid_and_reads_the_volume_of_the_demonstration(path: pathlib.Path) -> None:
    sweep = parse_sweep(yaml.safe_load(path.read_text(encoding="utf-8")))

    assert sweep.metadata.namespace == manifests.NAMESPACE
    volumes = [volume.model_extra for volume in sweep.spec.template.spec.volumes or ()]
    assert volumes == [{"persistentVolumeClaim": {"claimName": manifests.CLAIM}}]
    assert f"](sweep/{path.name})" in README


def test_names_of_jobs_differ() -> None:
    names = [job(name)["metadata"]["name"] for name in MANIFESTS]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("name", MANIFESTS)
def test_the_list_of_examples_has_each(name: str) -> None:
    assert f"]({name})" in README


@pytest.mark.parametrize("row", [f"R{number}" for number in (*range(2, 15), 16)])
def test_every_requirement_has_an_example(row: str) -> None:
    assert re.search(rf"^\| {row} \|.*\]\(", README, re.MULTILINE)
