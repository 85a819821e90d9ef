"""ConfigMaps of a file or folder, as a local run of its job finds them."""

from pathlib import Path

import pytest
import yaml
from support.examples import FOLDER, MANIFESTS, job

from tfdist.cli import jobs
from tfdist.cli.errors import CommandError
from tfdist.cli.jobs import config_maps
from tfdist.local.job import LocalJob, Machine
from tfdist.local.volumes import Sources
from tfdist.validation import parse


@pytest.mark.parametrize("name", MANIFESTS)
def test_every_example_can_run_on_one_machine(name: str) -> None:
    made = config_maps(jobs.read(str(FOLDER / name.removesuffix("/job.yaml"))), "tfdist-demo")
    document = job(name)
    document["metadata"]["uid"] = "local"
    ports = iter(range(40000, 41000))
    prepared = LocalJob(parse(document), Sources(Path("/state"), {}, made), Machine("box", {}), lambda: next(ports))
    assert all(replica.command for replica in prepared.replicas.values())


def test_a_config_map_of_another_namespace_is_not_seen(tmp_path: Path) -> None:
    documents = [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **place}, "data": {"k": name}}
        for name, place in (("a", {}), ("b", {"namespace": "team"}), ("c", {"namespace": "other"}))
    ]
    (tmp_path / "all.yaml").write_text(yaml.safe_dump_all(documents))
    assert set(config_maps(jobs.read(str(tmp_path)), "team")) == {"a", "b"}


def test_a_kustomization_generates_them_from_files_and_literals(tmp_path: Path) -> None:
    generator = {"name": "code", "files": ["train.py", "main.py=train.py"], "literals": ["mode=fast=er"]}
    kustomization = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"}
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(kustomization | {"configMapGenerator": [generator]}))
    with pytest.raises(CommandError, match=r"train.py of configMapGenerator cannot be read: No such file"):
        config_maps(jobs.read(str(tmp_path)), "team")
    (tmp_path / "train.py").write_text("print()")
    made = config_maps(jobs.read(str(tmp_path)), "team")
    assert made == {"code": {"data": {"train.py": "print()", "main.py": "print()", "mode": "fast=er"}}}
