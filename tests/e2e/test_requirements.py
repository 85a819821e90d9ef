"""Packages of a job on pods: wheels in the code are installed before a script starts, in a network without an index."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from support.e2e import Cluster
from support.failing_jobs import JobNamespace, own_namespace
from support.tiny_wheels import tiny_wheel

from tfdist.client.submission import manifest_of, prepare_changed

pytestmark = [pytest.mark.e2e, pytest.mark.long, pytest.mark.timeout(420)]

SCRIPT: Final = """
import greeting, numpy
print("greeting", greeting.VERSION, greeting.__file__, numpy.__file__)
"""


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[JobNamespace]:
    with own_namespace(cluster, "packages") as namespace:
        yield namespace


def start(namespace: JobNamespace, code: Path, name: str, requirements: Path) -> None:
    """Create a job of two workers that run the script of a folder, as `Client.submit` does."""
    spec = {
        "worker": {"replicas": 2},
        "training": {"script": "train.py"},
        "runPolicy": {"cleanPodPolicy": "None", "backoffLimit": 0},
        "resources": {"requests": {"cpu": "50m", "memory": "100Mi"}},
    }
    job = manifest_of({"metadata": {"name": name}, "spec": spec})
    submission = prepare_changed(job, namespace.cluster.namespace, code, {}, (), (), requirements=requirements)
    (archive,) = submission.code
    namespace.start(archive, submission.job)


def test_each_pod_installs_the_wheels_of_the_code_and_keeps_the_packages_of_the_image(
    namespace: JobNamespace, tmp_path: Path
) -> None:
    # given a package that depends on one in the image
    tiny_wheel(tmp_path / "wheels", "greeting", requires=["numpy"])
    (tmp_path / "train.py").write_text(SCRIPT)
    requirements = tmp_path / "requirements.txt"
    requirements.write_text("--no-index\n--find-links wheels\ngreeting>=0.5\n")
    # when
    start(namespace, tmp_path, "greets", requirements)
    status = namespace.ended("greets", seconds=180)
    # then
    assert status["phase"] == "Succeeded", namespace.described("greets")
    kubectl, pods = namespace.cluster.kubectl, namespace.cluster.pods("greets")
    assert len(pods) == 2
    for pod in pods:
        log = kubectl.run("logs", f"--namespace={namespace.cluster.namespace}", pod["metadata"]["name"])
        assert "greeting 1.0 /opt/tfdist/packages/greeting.py /venv/lib/" in log


def test_a_file_that_was_replaced_after_it_was_locked_ends_the_job_with_its_name(
    namespace: JobNamespace, tmp_path: Path
) -> None:
    # given
    tiny_wheel(tmp_path / "wheels", "greeting")
    (tmp_path / "train.py").write_text(SCRIPT)
    requirements = tmp_path / "requirements.txt"
    requirements.write_text(f"--no-index\n--find-links wheels\ngreeting==1.0 --hash=sha256:{'0' * 64}\n")
    # when
    start(namespace, tmp_path, "differs", requirements)
    status = namespace.ended("differs", seconds=180)
    # then
    assert status["phase"] == "Failed"
    assert "the file of greeting" in namespace.described("differs")
