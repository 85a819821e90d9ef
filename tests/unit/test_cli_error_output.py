"""The most common errors as a user reads them: the cause, where it is, and what to do about it.

The texts are in `golden_cli/`; UPDATE_GOLDEN=1 writes them again, to be read as a change of the output.
"""

import errno
import pathlib
import random
from collections.abc import Callable, Iterator

import pytest
import urllib3
import yaml
from support.factories import CHECKPOINT, manifest
from support.stored_cluster import JOBS, StoredCluster, connected, example
from support.stored_jobs import RUNNING
from support.transcripts import WIDTHS, check, transcript

Prepare = Callable[[StoredCluster], object]


@pytest.fixture
def cluster(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StoredCluster]:
    """A cluster with jobs that run, have failed, and are new; the current folder has a manifest."""
    monkeypatch.chdir(tmp_path)
    job = manifest("reviews")
    job["metadata"] = {"name": "reviews"}
    pathlib.Path("job.yaml").write_text(yaml.safe_dump(job, sort_keys=False), encoding="utf-8")
    made = example()
    with connected(made):
        yield made


def without_kubeconfig(_: StoredCluster) -> None:
    pathlib.Path(".kube/config").unlink()


def away(cluster: StoredCluster) -> None:
    error = urllib3.exceptions.HTTPError()
    error.__cause__ = ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
    cluster.away = error


def rejected(code: int, message: str = "") -> Prepare:
    """Return what makes the cluster answer each request for jobs with an error."""

    def prepare(cluster: StoredCluster) -> None:
        cluster.rejected |= dict.fromkeys((JOBS, *cluster.objects), (code, message))

    return prepare


def finished(cluster: StoredCluster) -> None:
    cluster.objects[f"{JOBS}/fashion"] = {**RUNNING.manifest, "status": {"phase": "Succeeded"}}


def with_script(cluster: StoredCluster) -> None:
    cluster.put(f"{JOBS}/reviews", spec={"checkpoint": CHECKPOINT, "training": {"script": "train.py"}})


def large(_: StoredCluster) -> None:
    """Store twelve files, of more than 8 MiB, that no compression makes smaller."""
    pathlib.Path("src/data").mkdir(parents=True)
    pathlib.Path("src/train.py").write_text("print()", encoding="utf-8")
    for number in range(11):
        content = random.Random(number).randbytes((number + 1) << 17)  # noqa: S311  no secret
        pathlib.Path(f"src/data/part-{number:02}.bin").write_bytes(content)


def unchanged(_: StoredCluster) -> None: ...


FORBIDDEN = (
    'tfdistjobs.tfdist.dev is forbidden: User "ada" cannot list resource "tfdistjobs" in API group "tfdist.dev" in the '
    'namespace "team"'
)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(
    ("name", "prepare", "command"),
    [
        ("no-kubeconfig", without_kubeconfig, "tfdist list"),
        ("no-answer", away, "tfdist list"),
        ("wrong-context", unchanged, "tfdist list --context staging"),
        ("expired-login", rejected(401), "tfdist list"),
        ("no-right", rejected(403, FORBIDDEN), "tfdist list"),
        ("not-installed", rejected(404), "tfdist list"),
        ("no-job", unchanged, "tfdist get fashin"),
        ("exists", lambda cluster: cluster.put(f"{JOBS}/reviews"), "tfdist submit job.yaml"),
        ("finished", finished, "tfdist suspend fashion"),
        ("no-tensorboard", unchanged, "tfdist tensorboard fashion"),
        ("no-replica", unchanged, "tfdist stacks fashion worker-7"),
        ("no-program", with_script, "tfdist evaluate reviews"),
        ("large-code", large, "tfdist submit --code src -- python train.py"),
        ("local-usage", unchanged, "tfdist submit job.yaml --workers 3"),
    ],
)
def test_an_error_names_its_cause_and_the_remedy(
    cluster: StoredCluster, width: int | None, name: str, prepare: Prepare, command: str
) -> None:
    prepare(cluster)

    check(f"error-{name}", transcript(width, lambda shown: shown.run(command, code=2)))


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize("width", WIDTHS)
def test_a_field_that_a_job_does_not_have_is_named_with_a_similar_one(width: int | None) -> None:
    command = "tfdist submit job.yaml --set training.config.epoch=3"

    check("error-invalid", transcript(width, lambda shown: shown.run(command, code=1)))


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize("width", WIDTHS)
def test_errors_of_a_manifest_have_the_file_and_line(width: int | None) -> None:
    text = (
        "apiVersion: tfdist.dev/v1\nkind: TFDistJob\nmetadata: {name: fashion}\nspec:\n  worker: {replicas: 2}\n"
        "  trainig: {script: train.py}\n  evaluation:\n    mode: AfterTraining\n"
    )
    pathlib.Path("job.yaml").write_text(text, encoding="utf-8")

    check("validate", transcript(width, lambda shown: shown.run("tfdist validate job.yaml", code=1)))
