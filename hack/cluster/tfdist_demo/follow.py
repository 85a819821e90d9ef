"""Applies an example with kubectl, and shows the progress of its job until it ends.

A job of an earlier run is deleted first in any phase; its checkpoints are in a separate folder.
"""

import contextlib
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tfdist_cluster import console, paths
from tfdist_cluster.errors import ClusterError, CommandError
from tfdist_demo import install, manifests, screen
from tfdist_demo.kubectl import Kubectl

EXAMPLE: Final = paths.REPOSITORY / "examples/fashion_mnist.yaml"
ENDED: Final = frozenset({"Succeeded", "Failed", "Invalid"})
POLL_SECONDS: Final = 1.0
LIMIT_SECONDS: Final = 900
PATIENCE_SECONDS: Final = 30


@dataclass(frozen=True, slots=True)
class Example:
    """An example: a manifest, or a folder with `kustomization.yaml`."""

    path: Path
    job: str
    """Name of its job."""

    @property
    def selector(self) -> str:
        """Labels of the job's pods."""
        return f"tfdist.dev/job={self.job}"


def read(kubectl: Kubectl, path: Path) -> Example:
    """Return the example at `path`, with the name of the job in it.

    Raises:
        ClusterError: there is no job of the demonstration's namespace in it.
    """
    if not path.exists():
        raise ClusterError(f"there is no example {path}; examples/README.md lists them")
    output = kubectl.run("create", "--dry-run=client", "--output=json", *_from(path))
    for item in objects(output):
        if (item.get("kind"), item.get("metadata", {}).get("namespace")) == ("TFDistJob", manifests.NAMESPACE):
            return Example(path, item["metadata"]["name"])
    raise ClusterError(f"{path} holds no TFDistJob of namespace {manifests.NAMESPACE}")


def objects(output: str) -> Iterator[dict[str, Any]]:
    """Yield the objects that kubectl prints as JSON: one document, or one after another, each an object or a list."""
    decoder, remaining = json.JSONDecoder(), output.strip()
    while remaining.startswith("{"):
        document, end = decoder.raw_decode(remaining)
        yield from document.get("items", [document])
        remaining = remaining[end:].lstrip()


def _from(path: Path) -> tuple[str, str]:
    return ("-k" if path.is_dir() else "-f", str(path))


def start(kubectl: Kubectl, example: Example) -> None:
    """Delete an earlier job and apply the example."""
    in_namespace = f"--namespace={manifests.NAMESPACE}"
    kubectl.run(
        "delete", "tfdistjob", example.job, in_namespace, "--ignore-not-found", "--wait=true", "--cascade=foreground"
    )
    option, path = _from(example.path)
    with contextlib.suppress(ValueError):
        path = str(example.path.relative_to(paths.REPOSITORY))
    console.info(f"\n$ kubectl apply {option} {path}")
    console.info(kubectl.run("apply", *_from(example.path)).rstrip())


def until_ended(kubectl: Kubectl, example: Example) -> dict[str, Any]:
    """Show the job's progress until it has ended, and return it.

    Raises:
        ClusterError: the job is deleted, its pods cannot run, or it exceeds the time limit.
    """
    console.info(f"$ kubectl -n {manifests.NAMESPACE} get tfd {example.job}    (in another terminal, too)")
    view, started = _View(), time.monotonic()
    try:
        while True:
            job = _get_with_retry(kubectl, example.job)
            view.show(screen.progress_line(job))
            if (job.get("status") or {}).get("phase") in ENDED:
                return job
            elapsed = time.monotonic() - started
            install.explain_trouble(kubectl, manifests.NAMESPACE, example.selector, waited_seconds=elapsed)
            if elapsed > LIMIT_SECONDS:
                raise ClusterError(f"the job has not ended after {LIMIT_SECONDS} s\n{_state(kubectl)}")
            time.sleep(POLL_SECONDS)
    finally:
        view.end()


def final_table(kubectl: Kubectl, example: Example) -> str:
    """Return what `kubectl get tfd` prints of the job."""
    return kubectl.run("get", "tfd", example.job, f"--namespace={manifests.NAMESPACE}").rstrip()


def logs_of_failed(kubectl: Kubectl, example: Example) -> str:
    """Return the ends of the logs of the job's failed pods."""
    ends = []
    for pod in kubectl.pods(manifests.NAMESPACE, example.selector):
        if (pod.get("status") or {}).get("phase") == "Failed":
            name = pod["metadata"]["name"]
            ends.append(f"the end of {name}'s log:\n{kubectl.logs(manifests.NAMESPACE, name)}")
    return "\n".join(ends)


def _get_with_retry(kubectl: Kubectl, job: str) -> dict[str, Any]:
    """Return the job; retry for some seconds, while the API server may restart."""
    for _ in range(PATIENCE_SECONDS):
        with contextlib.suppress(CommandError):
            return _get(kubectl, job)
        time.sleep(POLL_SECONDS)
    return _get(kubectl, job)


def _get(kubectl: Kubectl, name: str) -> dict[str, Any]:
    job = kubectl.get("tfdistjob", name, f"--namespace={manifests.NAMESPACE}")
    if job is None:
        raise ClusterError(f"the job {name} was deleted")
    return job


def _state(kubectl: Kubectl) -> str:
    return kubectl.run("get", "tfdistjobs,pods,events", f"--namespace={manifests.NAMESPACE}").rstrip()


class _View:
    """Redraws one line on a terminal; elsewhere prints a line on every change."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._shown = ""

    def show(self, line: str) -> None:
        if line == self._shown:
            return
        if not self._terminal:
            console.info(line)
        else:
            phase = line.split(maxsplit=1)[0]
            new_phase = bool(self._shown) and not self._shown.startswith(phase)
            sys.stderr.write(f"{chr(10) if new_phase else ''}\r{line.ljust(screen.WIDTH)}")
            sys.stderr.flush()
        self._shown = line

    def end(self) -> None:
        if self._terminal and self._shown:
            sys.stderr.write("\n")
