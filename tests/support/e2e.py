"""A cluster that runs pods, as the e2e tests use it: the same kubectl commands that a person would type."""

import copy
import pathlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import yaml

from support.api import Json
from support.polling import WAIT_SECONDS, wait_for
from tfdist_cluster.errors import CommandError
from tfdist_demo import borrowed, data, install, manifests, target
from tfdist_demo.kubectl import Kubectl

ROOT = pathlib.Path(__file__).resolve().parents[2]
INSPECTOR = "inspector"


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster with the controller, and a pod of the trainer's image that sees the whole volume.

    Jobs are read from `namespace`; the volume is in that of the demonstration.
    """

    kubectl: Kubectl
    namespace: str

    def apply(self, manifest: Json) -> str:
        """Apply a manifest as a user does; return the output of kubectl, be it an error.

        One that is of the demonstration's namespace goes to that of the tests.
        """
        placed = moved(manifest, self.kubectl.place.namespace)
        try:
            return self.kubectl.run("apply", "-f", "-", stdin=yaml.safe_dump(placed))
        except CommandError as error:
            return str(error.output)

    def job(self, name: str) -> Json:
        """Return a job of the namespace."""
        stored = self.kubectl.get("tfd", name, f"--namespace={self.namespace}")
        assert stored is not None, f"job {name} is gone"
        return stored

    def pods(self, job: str) -> list[Json]:
        """Return the pods of a job by name."""
        items = self.kubectl.pods(self.namespace, f"tfdist.dev/job={job}")
        return sorted(items, key=lambda pod: str(pod["metadata"]["name"]))

    def delete_job(self, name: str) -> None:
        """Delete a job and wait until it is gone."""
        self.kubectl.run("delete", "tfd", name, f"--namespace={self.namespace}", "--ignore-not-found")

    def await_condition(self, name: str, kind: str, reason: str, seconds: float = WAIT_SECONDS) -> Json:
        """Return the condition of a type once it has that reason."""

        def matching() -> Json | None:
            conditions = self.job(name).get("status", {}).get("conditions", ())
            return next((c for c in conditions if (c["type"], c["reason"]) == (kind, reason)), None)

        condition = wait_for(f"{kind} with reason {reason} of {name}", matching, seconds)
        assert condition is not None
        return condition

    def inside(self, *command: str, stdin: str | None = None) -> str:
        """Run a command in the pod that sees the volume under /volume."""
        stream = ["--stdin"] if stdin is not None else []
        exec_ = ["exec", f"--namespace={self.kubectl.place.namespace}", INSPECTOR, *stream, "--", *command]
        return self.kubectl.run(*exec_, stdin=stdin, timeout_seconds=300)


@contextmanager
def prepared(images: dict[str, str]) -> Iterator[Cluster]:
    """Install the controller, fill the volume, and have the inspector run while the block does."""
    chosen = borrowed.borrow(target.choose())
    kubectl = chosen.kubectl()
    if not chosen.own:
        borrowed.require_free(kubectl)
        borrowed.clean(kubectl)  # what an earlier run left that was killed
    try:
        install.install(kubectl, controller=images["controller"], trainer=images["trainer"])
        data.prepare_volume(
            kubectl, images["trainer"], storage_class=chosen.storage_class, access_mode=chosen.access_mode
        )
        with _inspector(kubectl, images["trainer"]):
            yield Cluster(kubectl, kubectl.place.namespace)
    finally:
        if not chosen.own:
            borrowed.clean(kubectl)


@contextmanager
def _inspector(kubectl: Kubectl, trainer: str) -> Iterator[None]:
    """Have the inspector run while the block does."""
    namespace = kubectl.place.namespace
    pod: dict[str, Any] = copy.deepcopy(dict(manifests.loader(trainer, namespace)))
    pod["spec"]["containers"][0]["command"] = ["sleep", "infinity"]  # all tests may take longer than the data did
    pod["metadata"] = {"name": INSPECTOR, "namespace": namespace}
    delete = ("delete", "pod", INSPECTOR, f"--namespace={namespace}", "--ignore-not-found", "--now")
    kubectl.run(*delete)
    kubectl.apply(pod)
    try:
        ready = ("wait", "--for=condition=Ready", f"pod/{INSPECTOR}", f"--namespace={namespace}", "--timeout=50s")
        kubectl.run(*ready)
        yield
    finally:
        kubectl.run(*delete, "--wait=false")


def moved(manifest: Json, namespace: str) -> Json:
    """Return a manifest of the demonstration's namespace as one of another; any other as it is."""
    if manifest["metadata"].get("namespace") != manifests.NAMESPACE:
        return manifest
    return manifest | {"metadata": manifest["metadata"] | {"namespace": namespace}}


def example(name: str, **config: Any) -> Json:
    """Return the job of `examples/fashion_mnist.yaml` under another name, its program's settings changed."""
    job: Json = yaml.safe_load((ROOT / "examples" / "fashion_mnist.yaml").read_text())
    job["metadata"]["name"] = name
    job["spec"]["training"]["config"] |= config
    return job
