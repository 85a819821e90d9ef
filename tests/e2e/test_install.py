"""The life of an installation during a running job: upgrade, uninstallation, another controller, reinstallation.

No step may cost the job a pod or its progress, and a controller of one namespace touches nothing outside of it.
"""

import json
import pathlib
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest
from support.api import Json
from support.e2e import Cluster, example
from support.polling import wait_for

from tfdist_cluster.errors import CommandError
from tfdist_cluster.paths import REPOSITORY
from tfdist_demo import helm, install, manifests
from tfdist_demo.helm import CHART
from tfdist_demo.kubectl import Kubectl
from tfdist_demo.place import Place

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

JOB = "e2e-installed"
INSIDE, OUTSIDE = "tfdist-e2e-inside", "tfdist-e2e-outside"
ACCOUNT = f"system:serviceaccount:{INSIDE}:inside"


@dataclass(frozen=True, slots=True)
class Installation:
    """The release of the chart in a cluster, and the options that set its images."""

    cluster: Cluster
    helm: helm.Helm
    images: tuple[str, ...]

    def put(self, *options: str, version: str = "") -> None:
        """Install or upgrade it, as another version if one is given; return when it is ready."""
        options = (*self.images, *options)
        self.helm.install(self.helm.package(CHART, version), self.cluster.kubectl.place, *options)
        install.wait_until_ready(self.cluster.kubectl)

    def remove(self) -> None:
        """Uninstall it; return when no pod of the controller is left, and no Lease."""
        kubectl, place = self.cluster.kubectl, self.cluster.kubectl.place
        self.helm.run("uninstall", place.release, f"--namespace={place.system}", "--wait")
        wait_for("the controller's end", lambda: not kubectl.pods(place.system, place.selector))
        lease = ("lease", place.controller, f"--namespace={place.system}")
        wait_for("its Lease to go", lambda: kubectl.get(*lease) is None)


def chart_before(folder: pathlib.Path) -> pathlib.Path:
    """Return the chart as it was before its last change; the present one if git does not know that any more."""
    path = CHART.relative_to(REPOSITORY)
    git = ["git", "-C", str(REPOSITORY)]
    log = [*git, "log", "--format=%H", "--max-count=2", "--", str(path)]
    commits = subprocess.run(log, capture_output=True, text=True, check=True).stdout.split()
    if len(commits) < 2:
        return CHART
    archive = folder / "chart.tar"
    subprocess.run([*git, "archive", f"--output={archive}", commits[1], str(path)], check=True)
    shutil.unpack_archive(archive, folder)
    return folder / path


@pytest.fixture(scope="module")
def installation(
    cluster: Cluster, images: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installation]:
    names = helm.image_options({"image": images["controller"], "trainerImage": images["trainer"]})
    made = Installation(cluster, helm.Helm(helm.program(), cluster.kubectl.kubeconfig), tuple(names))
    # The role of the chart before may lack what the image of today requires: that release is never ready.
    before = made.helm.package(chart_before(tmp_path_factory.mktemp("chart")), "0.0.1")
    made.helm.install(before, cluster.kubectl.place, *names)
    made.put(version="0.0.2")
    try:
        yield made
    finally:
        made.put()


@dataclass(frozen=True, slots=True)
class Running:
    """A job in the middle of its training, with the pods that it had then."""

    cluster: Cluster
    pods: dict[str, str]

    def step(self) -> int:
        """Return the step in its status."""
        status = self.cluster.job(JOB).get("status", {})
        return int(status.get("progress", {}).get("step", 0))

    def assert_untouched(self) -> None:
        """Assert that every pod is the one of the beginning, and runs."""
        pods = self.cluster.pods(JOB)
        assert {p["metadata"]["name"]: p["metadata"]["uid"] for p in pods} == self.pods
        assert {p["status"]["phase"] for p in pods} == {"Running"}
        assert [c["restartCount"] for p in pods for c in p["status"]["containerStatuses"]] == [0, 0]
        assert self.cluster.job(JOB)["status"]["attempt"] == 0

    def assert_advances(self, beyond: int) -> None:
        """Wait until the status has a later step, and assert that nothing was created again for it."""
        wait_for("a later step", lambda: self.step() > beyond)
        self.assert_untouched()


@pytest.fixture(scope="module")
def running(installation: Installation) -> Iterator[Running]:
    cluster = installation.cluster
    cluster.delete_job(JOB)
    output = cluster.apply(example(JOB, epochs=2000))
    assert "created" in output, output
    try:
        first = Running(cluster, {})
        wait_for("its first steps", lambda: first.step() > 0, seconds=300)
        yield replace(first, pods={p["metadata"]["name"]: p["metadata"]["uid"] for p in cluster.pods(JOB)})
    finally:
        cluster.delete_job(JOB)


def test_the_test_of_the_release_succeeds(installation: Installation) -> None:
    place = installation.cluster.kubectl.place
    output = installation.helm.run("test", place.release, f"--namespace={place.system}")
    assert "Phase:          Succeeded" in output


def test_an_upgrade_costs_a_running_job_neither_a_pod_nor_progress(
    installation: Installation, running: Running
) -> None:
    before = running.step()
    installation.put("--set", "settings.logLevel=DEBUG")
    running.assert_advances(before)


@pytest.mark.long
def test_an_uninstallation_leaves_jobs_and_pods_and_the_next_installation_takes_them_over(
    installation: Installation, running: Running
) -> None:
    before = running.step()
    installation.remove()
    running.assert_untouched()
    installation.put()
    running.assert_advances(before)


@pytest.mark.long
def test_a_controller_of_one_namespace_neither_touches_nor_may_touch_another(
    installation: Installation, running: Running
) -> None:
    kubectl = installation.cluster.kubectl
    installation.remove()
    try:
        kubectl.apply(*(manifests.restricted_namespace(name) for name in (INSIDE, OUTSIDE)))
        jobs = {name: replace(installation.cluster, namespace=name) for name in (INSIDE, OUTSIDE)}
        for name, cluster in jobs.items():
            assert "created" in cluster.apply(_job_without_volumes(name))
        options = ["--set", f"namespaces={{{INSIDE}}},crds.install=false"]
        place = Place(INSIDE, INSIDE, "inside", "inside")
        installation.helm.install(installation.helm.package(), place, *installation.images, *options)
        wait_for("a reconciliation of the job inside", lambda: jobs[INSIDE].job("probe").get("status"))
        wait_for("its pod", lambda: jobs[INSIDE].pods("probe"))
        assert not jobs[OUTSIDE].job("probe").get("status")
        assert not jobs[OUTSIDE].pods("probe")
        assert _may(kubectl, "create", "pods", INSIDE)
        assert not _may(kubectl, "create", "pods", OUTSIDE)
        assert not _may(kubectl, "list", "tfdistjobs.tfdist.dev", OUTSIDE)
        running.assert_untouched()
    finally:
        kubectl.run("delete", "namespace", INSIDE, OUTSIDE, "--ignore-not-found", "--wait=false")
        installation.put()


@pytest.mark.long
def test_the_webhook_reports_at_apply_what_validate_reports(installation: Installation) -> None:
    installation.put("--set", "webhook.enabled=true")
    cluster = installation.cluster
    broken = _job_without_volumes(cluster.namespace)
    broken["spec"]["template"] = {"spec": {"containers": [{"name": "tensorflow", "imagePullPolicy": "Often"}]}}
    path = "spec.template.spec.containers[0].imagePullPolicy"
    wait_for("the API server to ask the webhook", lambda: path in _rejection(cluster.kubectl, broken))


def _rejection(kubectl: Kubectl, job: Json) -> str:
    """Return why a job would not be stored; "" if it would."""
    try:
        kubectl.run("apply", "--dry-run=server", "-f", "-", stdin=json.dumps(job))
    except CommandError as error:
        return error.output
    return ""


def _job_without_volumes(namespace: str) -> Json:
    """Return a job that needs nothing of its namespace; its program does not exist, and no test waits for its end."""
    spec = {"worker": {"replicas": 1}, "training": {"program": "nothing:Nothing"}}
    metadata = {"name": "probe", "namespace": namespace}
    return {"apiVersion": "tfdist.dev/v1", "kind": "TFDistJob", "metadata": metadata, "spec": spec}


def _may(kubectl: Kubectl, verb: str, resource: str, namespace: str) -> bool:
    """Return whether the controller of one namespace has a right in a namespace."""
    try:
        answer = kubectl.run("auth", "can-i", verb, resource, f"--namespace={namespace}", f"--as={ACCOUNT}")
    except CommandError as error:  # kubectl ends with 1 for the answer no
        answer = error.output
    return answer.strip().endswith("yes")
