"""What the commands print about the jobs of a cluster, at terminals of 80 and 200 columns and without a terminal.

The texts are in `golden_cli/`; UPDATE_GOLDEN=1 writes them again, to be read as a change of the output. A text without
a width in its name is the same everywhere.
"""

import contextlib
import pathlib
import socket
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from support.factories import CHECKPOINT, manifest
from support.stored_cluster import JOBS, StoredCluster, connected, example, installed, put_pod
from support.stored_jobs import RUNNING
from support.transcripts import WIDTHS, Transcript, check, transcript

Run = Callable[[StoredCluster, Transcript], None]

every_width = pytest.mark.parametrize("width", WIDTHS)


@pytest.fixture
def cluster(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StoredCluster]:
    """A cluster with jobs that run, have failed, and are new; the current folder is that of a user."""
    monkeypatch.chdir(tmp_path)
    made = example()
    with connected(made):
        yield made


def state(phase: str, message: str = "", **spec: Any) -> dict[str, Any]:
    """Return the job `fashion` in a later state."""
    status = {"phase": phase, "observedGeneration": 1, "summary": {"message": message}}
    return {**RUNNING.manifest, "spec": {**RUNNING.spec, **spec}, "status": status}


# Tables


@every_width
@pytest.mark.parametrize(
    ("name", "commands"),
    [
        ("jobs", ["tfdist list"]),
        ("get", ["tfdist get fashion", "tfdist get fashion -o wide"]),
        ("describe", ["tfdist describe prices"]),
        ("events-fashion", ["tfdist events fashion"]),
        ("top", ["tfdist top"]),
        ("cost", ["tfdist cost -A --prices prices.yaml", "tfdist cost fashion"]),
    ],
)
@pytest.mark.usefixtures("cluster")
def test_a_table_fits_the_terminal(width: int | None, name: str, commands: list[str]) -> None:
    pathlib.Path("prices.yaml").write_text("gpuHour: 2.0\ncpuHour: 0.5\ncurrency: EUR\n", encoding="utf-8")

    text = transcript(width, lambda shown: shown.run(*commands))

    assert width is None or max(map(len, text.splitlines())) <= width
    check(f"{name}-{width or 'pipe'}", text)


@every_width
def test_new_events_are_lines_that_end_with_the_job(cluster: StoredCluster, width: int | None) -> None:
    cluster.deleted_by_watch.add(f"{JOBS}/prices")

    check(f"events-follow-{width or 'pipe'}", transcript(width, lambda shown: shown.run("tfdist events prices -f")))


@every_width
def test_a_check_of_the_cluster_that_finds_nothing(cluster: StoredCluster, width: int | None) -> None:
    installed(cluster)

    check(f"doctor-{width or 'pipe'}", transcript(width, lambda shown: shown.run("tfdist doctor")))


@every_width
def test_a_check_of_the_cluster_names_what_is_missing_with_the_remedy(
    cluster: StoredCluster, width: int | None
) -> None:
    installed(cluster)
    cluster.denied |= {("create", "tfdistjobs"), ("create", "pods/exec"), ("get", "pods/log")}
    cluster.objects["/api/v1/namespaces/team/resourcequotas/team"]["status"]["used"] = {"pods": "10"}
    for path in ("/api/v1/nodes", "/apis/storage.k8s.io/v1/storageclasses", "/apis/apps/v1/deployments",
                 "/apis/apps/v1/namespaces/tfdist-system/deployments"):  # fmt: skip
        cluster.rejected[path] = (403, "forbidden")

    text = transcript(width, lambda shown: shown.run("tfdist doctor prices", code=1))

    assert width is None or max(map(len, text.splitlines())) <= width
    check(f"doctor-missing-{width or 'pipe'}", text)


# Messages, which are the same everywhere


def stored_forms(_: StoredCluster, shown: Transcript) -> None:
    shown.run("tfdist get new -o name", "tfdist get new -o yaml", "tfdist get new -o json")


def waiting(cluster: StoredCluster, shown: Transcript) -> None:
    shown.run("tfdist wait fashion --for Running")
    cluster.watched["fashion"] = [state("Running"), state("Succeeded", "training succeeded after 1407 steps")]
    shown.run("tfdist wait fashion")
    shown.run("tfdist wait new --for Running --timeout 0s", code=124)
    shown.run("tfdist wait prices", code=64)
    shown.show_exit_code(64)


def controlling(cluster: StoredCluster, shown: Transcript) -> None:
    suspended = "the job is suspended; runPolicy.suspend: false resumes it"
    stopped: dict[str, Any] = {"runPolicy": {"suspend": True}}
    cluster.watched["fashion"] = [state("Suspending", **stopped), state("Suspended", suspended, **stopped)]
    shown.run("tfdist suspend fashion --wait")
    shown.run("tfdist scale fashion --workers 3")
    shown.run("tfdist resume fashion")
    shown.run("tfdist restart fashion new")
    shown.run("tfdist delete fashion")


def submitting(_: StoredCluster, shown: Transcript) -> None:
    pathlib.Path("src").mkdir()
    pathlib.Path("src/train.py").write_text("import keras\n", encoding="utf-8")
    pathlib.Path("src/data.py").write_text("import tensorflow\n", encoding="utf-8")
    write("job.yaml", manifest("reviews"))
    shown.run("tfdist submit --name train --workers 4 --gpus 1 --code src -- python train.py --epochs 3")
    shown.run("tfdist submit job.yaml --name second --set training.config.learningRate=0.01")
    shown.run("tfdist submit job.yaml --dry-run=server")


def evaluating(cluster: StoredCluster, shown: Transcript) -> None:
    cluster.objects[f"{JOBS}/fashion"]["spec"] = {**RUNNING.spec, "checkpoint": CHECKPOINT}
    shown.run("tfdist evaluate fashion --checkpoint 700 --workers 2 --name fashion-evaluation")


def reporting(cluster: StoredCluster, shown: Transcript) -> None:
    installed(cluster)
    cluster.objects[f"{JOBS}/fashion"] = state("Running", env=[{"name": "API_KEY", "value": "s3cr3t-value"}])
    shown.run("tfdist report fashion")


def asking(_: StoredCluster, shown: Transcript) -> None:
    pathlib.Path("train.py").write_text("print()", encoding="utf-8")
    shown.run("tfdist init", answers=["train.py", "", "4", "1", "images", ""])


def write(path: str, document: dict[str, Any]) -> None:
    """Write a manifest as users do, without what the API server adds."""
    document = {**document, "metadata": {"name": document["metadata"]["name"]}}
    pathlib.Path(path).write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")


@every_width
@pytest.mark.parametrize(
    ("name", "run"),
    [
        ("get-stored", stored_forms),
        ("wait", waiting),
        ("control", controlling),
        ("submit", submitting),
        ("evaluate", evaluating),
        ("report", reporting),
        ("init-dialogue", asking),
    ],
)
def test_messages_are_the_same_everywhere(cluster: StoredCluster, width: int | None, name: str, run: Run) -> None:
    check(name, transcript(width, lambda shown: run(cluster, shown)))


def test_a_job_that_is_followed_has_a_line_for_each_phase(cluster: StoredCluster) -> None:
    """Given no terminal, where the progress is not redrawn."""

    def run(shown: Transcript) -> None:
        write("job.yaml", manifest("fashion"))
        cluster.objects.clear()
        cluster.watched["fashion"] = [
            state("Running", "all 2 replicas run; worker-0 leads"),
            state("Succeeded", "training succeeded after 1407 steps"),
        ]
        shown.run("tfdist submit job.yaml --follow")

    check("submit-follow", transcript(None, run))


# Connections to pods


class Forward:
    """A forwarded port, without a listener."""

    def __init__(self, _api: object, _find: object, port: int, local: int = 0, **_report: object) -> None:
        self.local_port = local or 30000 + port

    def close(self) -> None: ...


@pytest.fixture
def forwarded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forwarded ports that are free ones, until a Ctrl-C that comes at once."""
    monkeypatch.setattr("tfdist.cli.commands.port_forward.PortForward", Forward)
    monkeypatch.setattr("tfdist.cli.commands.port_forward.wait_for_interrupt", lambda: None)
    monkeypatch.setattr("tfdist.cli.commands.port_forward._answers", lambda _: True)


@every_width
@pytest.mark.usefixtures("forwarded", "cluster")
def test_forwarded_ports_are_one_line_each(width: int | None) -> None:
    check("port-forward", transcript(width, lambda shown: shown.run("tfdist port-forward fashion worker-1 :8790 9000")))


@every_width
@pytest.mark.usefixtures("forwarded")
def test_the_states_that_a_tensorboard_starts_in_are_shown_before_its_address(
    cluster: StoredCluster, width: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def become_ready(_: float) -> None:
        put_pod(cluster, "tensorboard-5c9d8f7b6-x2v4z")

    cluster.objects[f"{JOBS}/fashion"] = state("Running", tensorBoard={})
    put_pod(cluster, "tensorboard-5c9d8f7b6-x2v4z", is_running=False)
    monkeypatch.setattr("tfdist.cli.commands.port_forward.threading.Event", lambda: SimpleNamespace(wait=become_ready))

    check("tensorboard", transcript(width, lambda shown: shown.run("tfdist tensorboard fashion --no-open")))


STACK = b"""Thread MainThread (139743780068224):
  File "/app/train.py", line 21, in <module>
    model.fit(data)
"""


@contextlib.contextmanager
def serving(*_: object) -> Iterator[tuple[socket.socket, list[str]]]:
    """Yield a connection to a report port."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(STACK), STACK))
        yield ours, []


@every_width
def test_the_stacks_of_each_replica_are_below_its_name(
    cluster: StoredCluster, width: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_pod(cluster, "worker-2", is_running=False)
    monkeypatch.setattr("tfdist.client.port_forward.connected", serving)

    check("stacks", transcript(width, lambda shown: shown.run("tfdist stacks fashion")))
