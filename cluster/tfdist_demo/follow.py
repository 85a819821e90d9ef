"""Applies the example job as a person would, and shows it until it ends.

A job of an earlier run is deleted first, whatever became of it: its checkpoints lie in a folder of its own.
"""

import contextlib
import sys
import time
from typing import Any, Final

from tfdist_cluster import console, paths
from tfdist_cluster.errors import ClusterError, CommandError
from tfdist_demo import install, manifests, screen
from tfdist_demo.kubectl import Kubectl

EXAMPLE: Final = paths.REPOSITORY / "examples/fashion_mnist.yaml"
JOB: Final = "fashion"
SELECTOR: Final = f"tfdist.dev/job={JOB}"
ENDED: Final = frozenset({"Succeeded", "Failed", "Invalid"})
POLL_SECONDS: Final = 1.0
LIMIT_SECONDS: Final = 900
PATIENCE_SECONDS: Final = 30


def start(kubectl: Kubectl) -> None:
    """Delete an earlier job and apply the example."""
    in_namespace = f"--namespace={manifests.NAMESPACE}"
    kubectl.run("delete", "tfdistjob", JOB, in_namespace, "--ignore-not-found", "--wait=true", "--cascade=foreground")
    shown = EXAMPLE.relative_to(paths.REPOSITORY)
    console.say(f"\n$ kubectl apply -f {shown}")
    console.say(kubectl.run("apply", "-f", str(EXAMPLE)).rstrip())


def until_ended(kubectl: Kubectl) -> dict[str, Any]:
    """Show the job's progress until it has ended, and return it.

    Raises:
        ClusterError: it is gone, its pods cannot run, or it takes too long.
    """
    console.say(f"$ kubectl -n {manifests.NAMESPACE} get tfd {JOB}    (in another terminal, too)")
    view, started = _View(), time.monotonic()
    try:
        while True:
            job = _get_patiently(kubectl)
            view.show(screen.progress_line(job))
            if (job.get("status") or {}).get("phase") in ENDED:
                return job
            waited = time.monotonic() - started
            install.explain_trouble(kubectl, manifests.NAMESPACE, SELECTOR, waited_seconds=waited)
            if waited > LIMIT_SECONDS:
                raise ClusterError(f"the job has not ended after {LIMIT_SECONDS} s\n{_state(kubectl)}")
            time.sleep(POLL_SECONDS)
    finally:
        view.end()


def final_table(kubectl: Kubectl) -> str:
    """Return what `kubectl get tfd` prints of the job."""
    return kubectl.run("get", "tfd", JOB, f"--namespace={manifests.NAMESPACE}").rstrip()


def logs_of_failed(kubectl: Kubectl) -> str:
    """Return the ends of the logs of the job's failed pods."""
    ends = []
    for pod in kubectl.pods(manifests.NAMESPACE, SELECTOR):
        if (pod.get("status") or {}).get("phase") == "Failed":
            name = pod["metadata"]["name"]
            ends.append(f"the end of {name}'s log:\n{kubectl.logs(manifests.NAMESPACE, name)}")
    return "\n".join(ends)


def _get_patiently(kubectl: Kubectl) -> dict[str, Any]:
    """Return the job, though an API server that restarts meanwhile does not answer for some seconds."""
    for _ in range(PATIENCE_SECONDS):
        with contextlib.suppress(CommandError):
            return _get(kubectl)
        time.sleep(POLL_SECONDS)
    return _get(kubectl)


def _get(kubectl: Kubectl) -> dict[str, Any]:
    job = kubectl.get("tfdistjob", JOB, f"--namespace={manifests.NAMESPACE}")
    if job is None:
        raise ClusterError(f"the job {JOB} is gone: somebody has deleted it")
    return job


def _state(kubectl: Kubectl) -> str:
    return kubectl.run("get", "tfdistjobs,pods,events", f"--namespace={manifests.NAMESPACE}").rstrip()


class _View:
    """One line that is drawn over on a terminal; elsewhere a new line whenever something has changed."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._shown = ""

    def show(self, line: str) -> None:
        if line == self._shown:
            return
        if not self._terminal:
            console.say(line)
        else:
            phase = line.split(maxsplit=1)[0]
            new_phase = bool(self._shown) and not self._shown.startswith(phase)
            sys.stderr.write(f"{chr(10) if new_phase else ''}\r{line.ljust(screen.WIDTH)}")
            sys.stderr.flush()
        self._shown = line

    def end(self) -> None:
        if self._terminal and self._shown:
            sys.stderr.write("\n")
