"""The job of a script without a manifest is valid, named after the script, and runs it once."""

from pathlib import Path

import pytest

from tfdist import validation
from tfdist.api.training import TrainingSpec
from tfdist.cli.command_job import script_job
from tfdist.cli.commands import run
from tfdist.cli.errors import CommandError


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("train.py", "train"),
        ("My Model_v2.py", "my-model-v2"),
        ("2024.py", "job-2024"),
        ("模型.py", "job"),
        (f"{'long-' * 20}.py", "long-long-long-long-long-long-long-long"),
    ],
)
def test_the_name_of_the_job_is_that_of_the_script(tmp_path: Path, file: str, name: str) -> None:
    (tmp_path / file).write_text("")
    manifest = script_job(str(tmp_path / file), ["--epochs", "3"], workers=2)
    job = validation.parse(manifest)
    assert job.metadata.name == name
    assert job.spec.worker is not None
    assert job.spec.worker.replicas == 2
    assert manifest["spec"]["training"] == {"script": str(tmp_path / file), "args": ["--epochs", "3"]}


def test_a_script_without_arguments_has_none(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")
    manifest = script_job(str(tmp_path / "train.py"), [], workers=1)
    assert validation.parse(manifest).spec.training == TrainingSpec(script=str(tmp_path / "train.py"))


def test_a_script_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"absent\.py: no such file"):
        script_job(str(tmp_path / "absent.py"), [], workers=2)


@pytest.mark.parametrize(
    ("arguments", "workers", "message"),
    [
        ([], 2, r"--workers: job\.yaml is a manifest; set spec\.worker\.replicas in it"),
        (["--epochs"], None, "--epochs: only a Python script takes arguments"),
    ],
)
def test_a_manifest_has_its_own_size_and_arguments(arguments: list[str], workers: int | None, message: str) -> None:
    with pytest.raises(CommandError, match=message):
        run.run_here("job.yaml", arguments, workers=workers, state=None, volumes=(), entry_point="", in_place=False)
