"""Small jobs that end as configured, and what a user sees of them without reading a log.

Their programs are a few lines of Python in the trainer's image, so a dozen of them run at once on a small machine.
"""

import json
import re
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

from support.api import Json
from support.e2e import Cluster, moved
from support.polling import WAIT_SECONDS, wait_for
from tfdist_demo.place import TEST_NAMESPACES

ENDED: Final = frozenset({"Succeeded", "Failed"})

ENDS: Final = """
import json, os, sys
attempt = json.loads(os.environ["TFDIST_JOB"])["attempt"]
ways = [way.partition(" ") for way in sys.argv[1:]]
code, _, words = ways[min(attempt, len(ways) - 1)]
if words:
    print(words, file=sys.stderr)
sys.exit(int(code))
"""
"""Ends with the code of its first argument in attempt 0, of its second in attempt 1, and so on; words may follow."""

WAITS: Final = """
import json, os, signal, sys
if json.loads(os.environ["TFDIST_JOB"])["attempt"] == 0:
    signal.pause()
"""
"""Runs for ever in attempt 0, and succeeds in any later one."""


def small_job(name: str, program: str, *arguments: str, replicas: int = 1, **spec: Any) -> Json:
    """Return a job whose workers run a few lines of Python; `spec` adds to its specification."""
    command = ["python", "-c", program, *arguments]
    resources = {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "64Mi"}}
    common = {"command": command, "resources": resources, "template": {"spec": {"terminationGracePeriodSeconds": 1}}}
    return {
        "apiVersion": "tfdist.dev/v1",
        "kind": "TFDistJob",
        "metadata": {"name": name},
        "spec": {"worker": {"replicas": replicas}, **common, **spec},
    }


@dataclass(frozen=True, slots=True)
class JobNamespace:
    """Jobs of one namespace, as `kubectl` shows them."""

    cluster: Cluster

    def start(self, *jobs: Json) -> None:
        """Apply jobs together."""
        placed = [moved(job, self.cluster.kubectl.place.namespace) for job in jobs]
        items = {"apiVersion": "v1", "kind": "List", "items": placed}
        self._kubectl("apply", "-f", "-", stdin=json.dumps(items))

    def change(self, name: str, spec: Json) -> None:
        """Merge a change into the specification of a job."""
        self._kubectl("patch", "tfd", name, "--type=merge", f"--patch={json.dumps({'spec': spec})}")

    def ended(self, name: str, seconds: float = WAIT_SECONDS) -> Json:
        """Return the status of a job once it has ended."""

        def status() -> Json | None:
            current: Json = self.cluster.job(name).get("status", {})
            return current if current.get("phase") in ENDED else None

        last = wait_for(f"the end of {name}", status, seconds)
        assert last is not None
        return last

    def runs(self, name: str, *, attempt: int = 0, seconds: float = WAIT_SECONDS) -> list[Json]:
        """Return the pods of an attempt once all of it runs."""

        def running() -> list[Json]:
            status = self.cluster.job(name).get("status", {})
            assert status.get("phase") not in ENDED, self.described(name)
            if (status.get("phase"), status.get("attempt")) != ("Running", attempt):
                return []
            return [p for p in self.cluster.pods(name) if p["metadata"]["labels"]["tfdist.dev/attempt"] == str(attempt)]

        return wait_for(f"attempt {attempt} of {name} to run", running, seconds)

    def printed(self, name: str) -> dict[str, str]:
        """Return the columns of a job as `kubectl get -o wide` prints them."""
        head, line = self._kubectl("get", "tfd", name, "--output=wide").splitlines()
        starts = [m.start() for m in re.finditer(r"\S+", head)]
        ends = [*starts[1:], None]
        return {head[a:b].strip(): line[a:b].strip() for a, b in zip(starts, ends, strict=True)}

    def described(self, name: str) -> str:
        """Return what `kubectl describe` prints."""
        return self._kubectl("describe", "tfd", name)

    def await_description(self, name: str, *parts: str, seconds: float = WAIT_SECONDS) -> str:
        """Return what `kubectl describe` prints once it has all `parts`."""

        def text() -> str:
            description = " ".join(self.described(name).split())
            return description if all(part in description for part in parts) else ""

        try:
            return wait_for(f"{parts} in the description of {name}", text, seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.described(name)}") from None

    def root_causes(self, name: str) -> list[Json]:
        """Return the records of failures that ended an attempt, the oldest first."""
        failures: Sequence[Json] = self.cluster.job(name)["status"].get("failures", ())
        return [f for f in failures if f["rootCause"]]

    def delete_pod(self, pod: str) -> None:
        """Delete a pod as a person does who does not wait."""
        self._kubectl("delete", "pod", pod, "--wait=false")

    def evict(self, pod: str) -> None:
        """Evict a pod, as `kubectl drain` does."""
        meta = {"name": pod, "namespace": self.cluster.namespace}
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": meta}
        path = f"/api/v1/namespaces/{self.cluster.namespace}/pods/{pod}/eviction"
        self._kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(body))

    def _kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        return self.cluster.kubectl.run(*arguments, f"--namespace={self.cluster.namespace}", stdin=stdin)


@contextmanager
def own_namespace(cluster: Cluster, name: str) -> Iterator[JobNamespace]:
    """Make a namespace that goes with all that is in it when the block ends."""
    unique = f"{TEST_NAMESPACES}{name}-{uuid.uuid4().hex[:6]}"
    cluster.kubectl.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": unique}})
    try:
        yield JobNamespace(replace(cluster, namespace=unique))
    finally:
        cluster.kubectl.run("delete", "namespace", unique, "--wait=false")
