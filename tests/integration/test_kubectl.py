"""kubectl as a person uses it: apply, edit, scale, explain and get, against the real API server."""

import json
import os
import pathlib
import re
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pytest
import yaml
from support.api import JOBS, Api, Json
from support.controller import ROOT
from support.factories import EVALUATED, manifest

from tfdist.render.names import worker_selector
from tfdist_cluster.paths import State

pytestmark = pytest.mark.integration

CHECKPOINT: Json = {"step": 1000, "path": "/ckpt/1000", "time": "2030-01-02T03:04:05Z"}
RUNNING: Json = {
    "phase": "Running",
    "attempt": 1,
    "progress": {"step": 1200, "examplesPerSecond": 5120.5, "lastCheckpoint": CHECKPOINT},
    "summary": {
        "ready": "2/2",
        "progress": "40%",
        "eta": "12m",
        "metric": "accuracy=0.9123",
        "restarts": "1",
        "message": "step 1200",
    },
}
EDITOR = """\
import pathlib, sys
file = pathlib.Path(sys.argv[-1])
file.write_text(file.read_text().replace({old!r}, {new!r}))
"""


class Kubectl:
    """The program of the state folder, bound to the control plane and a namespace of the test."""

    def __init__(self, namespace: str, folder: pathlib.Path) -> None:
        state = State.from_environment()
        self._program = str(state.bin / "kubectl")
        self._options = ("--kubeconfig", str(state.control_plane / "kubeconfig"), "--namespace", namespace)
        self._environment = {"HOME": str(folder), "PATH": os.environ["PATH"]}
        self._folder = folder

    def __call__(self, *arguments: str, stdin: str = "", **environment: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [self._program, *self._options, *arguments],
            input=stdin,
            env=self._environment | environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def output(self, *arguments: str, stdin: str = "", **environment: str) -> str:
        """Run a command that must succeed, and return what it prints."""
        done = self(*arguments, stdin=stdin, **environment)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def error(self, *arguments: str, stdin: str = "", **environment: str) -> str:
        """Run a command that must fail, and return its messages."""
        done = self(*arguments, stdin=stdin, **environment)
        assert done.returncode != 0, done.stdout
        return done.stderr

    def editor(self, old: str, new: str) -> str:
        """Return an editor that replaces a text."""
        script = self._folder / "editor.py"
        script.write_text(EDITOR.format(old=old, new=new))
        return f"{sys.executable} {script}"


@pytest.fixture
def kubectl(api: Api, namespace: str, tmp_path: pathlib.Path) -> Kubectl:
    assert api.host, "the control plane is up, and the CRD is installed"
    return Kubectl(namespace, tmp_path)


def written(namespace: str, name: str = "fashion", **spec: Any) -> str:
    made = manifest(name, namespace, **spec)
    del made["metadata"]["uid"]
    return yaml.safe_dump(made)


def started(api: Api, namespace: str, **status: Any) -> None:
    path = f"{JOBS.format(ns=namespace)}/fashion/status"
    api.do("PATCH", path, {"status": {"attempt": 0, **status}}, "merge-patch")


@pytest.mark.parametrize("mode", [(), ("--server-side",)], ids=["by the client", "by the server"])
def test_apply_creates_then_changes_then_leaves_alone(kubectl: Kubectl, namespace: str, mode: Sequence[str]) -> None:
    more = written(namespace, runPolicy={"backoffLimit": 9})
    printed = [kubectl.output("apply", *mode, "-f", "-", stdin=text) for text in (written(namespace), more, more)]
    last = "serverside-applied" if mode else "unchanged"
    assert [re.sub(".* ", "", line.strip()) for line in printed][::2] == [
        "serverside-applied" if mode else "created",
        last,
    ]
    assert kubectl.output("get", "tfd", "fashion", "-o", "jsonpath={.spec.runPolicy.backoffLimit}") == "9"


def test_a_field_taken_out_of_the_manifest_goes_back_to_its_default(kubectl: Kubectl, namespace: str) -> None:
    kubectl.output("apply", "-f", "-", stdin=written(namespace, runPolicy={"backoffLimit": 9}))
    kubectl.output("apply", "-f", "-", stdin=written(namespace))
    assert kubectl.output("get", "tfd", "fashion", "-o", "jsonpath={.spec.runPolicy.backoffLimit}") == "3"


def test_two_people_apply_their_own_variables_without_a_conflict(kubectl: Kubectl, namespace: str) -> None:
    def variable(name: str) -> str:
        made = yaml.safe_load(written(namespace))
        return yaml.safe_dump(made | {"spec": {**made["spec"], "env": [{"name": name, "value": "1"}]}})

    for person in ("ann", "bob"):
        kubectl.output("apply", "--server-side", "--field-manager", person, "-f", "-", stdin=variable(person.upper()))
    assert kubectl.output("get", "tfd", "fashion", "-o", "jsonpath={.spec.env[*].name}") == "ANN BOB"


def test_strict_validation_names_a_typo(kubectl: Kubectl, namespace: str) -> None:
    assert 'unknown field "spec.wroker"' in kubectl.error("apply", "-f", "-", stdin=written(namespace, wroker={}))


def test_edit_saves_what_is_valid_and_reports_what_is_not(
    kubectl: Kubectl, namespace: str, tmp_path: pathlib.Path
) -> None:
    kubectl.output("apply", "-f", "-", stdin=written(namespace))
    assert "edited" in kubectl.output(
        "edit", "tfd", "fashion", KUBE_EDITOR=kubectl.editor("backoffLimit: 3", "backoffLimit: 5")
    )
    bad = kubectl.editor("strategy: MultiWorkerMirrored", "strategy: Mirored")
    assert '"fashion" is invalid' in kubectl.error("edit", "tfd", "fashion", KUBE_EDITOR=bad, TMPDIR=str(tmp_path))
    shown = "".join(copy.read_text() for copy in tmp_path.glob("kubectl-edit-*"))
    assert '# * spec.strategy: Unsupported value: "Mirored"' in shown, "what the editor shows next"


def test_the_workers_are_scaled_before_the_start_and_while_suspended(
    api: Api, kubectl: Kubectl, namespace: str
) -> None:
    kubectl.output("apply", "-f", "-", stdin=written(namespace))
    assert "scaled" in kubectl.output("scale", "tfd", "fashion", "--replicas=3")
    started(api, namespace)
    rejected = kubectl.error("scale", "tfd", "fashion", "--replicas=4")
    assert "suspend the job (runPolicy.suspend: true), change it, and resume" in rejected
    kubectl.output(
        "patch", "tfd", "fashion", "--type=merge", "-p", json.dumps({"spec": {"runPolicy": {"suspend": True}}})
    )
    assert "scaled" in kubectl.output("scale", "tfd", "fashion", "--replicas=4")
    assert kubectl.output("get", "tfd", "fashion", "-o", "jsonpath={.spec.worker.replicas}") == "4"


def test_a_number_of_workers_outside_of_the_bounds_is_rejected(kubectl: Kubectl, namespace: str) -> None:
    kubectl.output("apply", "-f", "-", stdin=written(namespace))
    assert "should be greater than or equal to 1" in kubectl.error("scale", "tfd", "fashion", "--replicas=0")


def served(api: Api) -> Json:
    """The version of the definition as the API server stores it; one before 1.30 drops `selectableFields`."""
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/tfdistjobs.tfdist.dev"
    version: Json = api.do("GET", path)["spec"]["versions"][0]
    return version


def test_jobs_are_selected_by_their_phase(api: Api, kubectl: Kubectl, namespace: str) -> None:
    kubectl.output("apply", "-f", "-", stdin=written(namespace))
    started(api, namespace, phase="Running")
    ask = ("get", "tfd", "-o", "name", "--field-selector")
    if "selectableFields" not in served(api):
        assert "field label not supported" in kubectl.error(*ask, "status.phase=Running")
        return
    assert kubectl.output(*ask, "status.phase=Running") == "tfdistjob.tfdist.dev/fashion\n"
    assert kubectl.output(*ask, "status.phase=Failed") == ""


def test_scale_has_the_selector_of_the_workers(api: Api, kubectl: Kubectl, namespace: str) -> None:
    kubectl.output("apply", "-f", "-", stdin=written(namespace))
    path = f"{JOBS.format(ns=namespace)}/fashion"
    api.do("PATCH", f"{path}/status", {"status": {"selector": worker_selector("u-1")}}, "merge-patch")
    scale = api.do("GET", f"{path}/scale")
    assert scale["status"]["selector"] == "tfdist.dev/job-uid=u-1,tfdist.dev/role=worker"


def columns(table: str) -> dict[str, str]:
    """What the first row of a table shows below each heading, cut where the headings begin."""
    heading, row = table.splitlines()[:2]
    starts = [match.start() for match in re.finditer(r"(?<!\S)\S", heading)]
    ends = [*starts[1:], max(len(row), len(heading))]
    return {heading[a:b].strip(): row[a:b].strip() for a, b in zip(starts, ends, strict=True)}


def test_get_shows_a_running_job_in_columns(api: Api, kubectl: Kubectl, namespace: str) -> None:
    kubectl.output("apply", "-f", "-", stdin=written(namespace, **EVALUATED))
    started(api, namespace, **RUNNING)
    shown = columns(kubectl.output("get", "tfd"))
    age = shown.pop("AGE")
    assert re.fullmatch(r"\d+s", age)
    assert shown == {
        "NAME": "fashion",
        "PHASE": "Running",
        "STRATEGY": "MultiWorkerMirrored",
        "READY": "2/2",
        "STEP": "1200",
        "DONE": "40%",
        "ETA": "12m",
        "METRIC": "accuracy=0.9123",
        "RESTARTS": "1",
    }
    wide = columns(kubectl.output("get", "tfdj", "-o", "wide"))
    assert (wide["EXAMPLES/S"], wide["CHECKPOINT"], wide["MESSAGE"]) == ("5120.5", "1000", "step 1200")


def test_get_shows_a_new_job_without_garbage(kubectl: Kubectl, namespace: str) -> None:
    kubectl.output("apply", "-f", "-", stdin=written(namespace))
    table = kubectl.output("get", "tfdistjobs", "-o", "wide")
    assert columns(table)["NAME"] == "fashion"
    assert "<unknown>" not in table
    assert "<nil>" not in table
    assert max(map(len, table.splitlines())) <= 160, "a line of a wide terminal"


def test_get_all_shows_jobs(kubectl: Kubectl, namespace: str) -> None:
    kubectl.output("apply", "-f", "-", stdin=written(namespace))
    assert "tfdistjob.tfdist.dev/fashion" in kubectl.output("get", "all")


@pytest.mark.parametrize(
    "field", ["spec", "spec.runPolicy", "spec.worker", "spec.failurePolicy.rules", "spec.template"]
)
def test_explain_describes_every_field(kubectl: Kubectl, field: str) -> None:
    explained = kubectl.output("explain", f"tfdistjob.{field}")
    lines = explained.splitlines()
    fields = [i for i, line in enumerate(lines) if re.match(r"  \w+\t<", line)]
    assert fields
    assert [lines[i] for i in fields if "<no description>" in lines[i + 1] or not lines[i + 1].strip()] == []


def test_explain_lists_all_fields_of_all_levels(kubectl: Kubectl) -> None:
    explained = kubectl.output("explain", "tfdistjob.spec", "--recursive")
    assert {"onPodConditions", "gpuMemoryLimitMiB", "claimName", "memoryFactor"} <= set(
        re.findall(r"(\w+)\t<", explained)
    )


def test_the_crd_can_be_applied_by_the_client(kubectl: Kubectl) -> None:
    file = str(ROOT / "crds" / "tfdistjobs.yaml")
    made = json.loads(kubectl.output("apply", "--dry-run=server", "--output=json", "-f", file))
    kept = made["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"]
    assert len(kept) < 262144 * 0.8, "room to grow below the limit of annotations"
