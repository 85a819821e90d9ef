"""A job whose specification is edited while it runs, for tests of planning."""

from typing import Any

from support.factories import UID, Lifecycle, manifest
from tfdist.planner import Plan
from tfdist_operator.cache.job_cache import JobCache
from tfdist_operator.kube.keys import NamespacedName

BOTH = "worker-0:R worker-1:R"
OLD, NEW = {"image": "team/train:1"}, {"image": "team/train:2"}
INVALID: dict[str, Any] = {"image": "team/train:3", "volumeMounts": [{"name": "absent", "mountPath": "/x"}]}
"""An error that only the controller finds."""


class Edited(Lifecycle):
    """A job of which the specification is edited, as the store of the controller parses it."""

    def __init__(self, pods: str = "", /, **spec: Any) -> None:
        self.version, self.generation = 1, 1
        self.annotations: dict[str, str] = {}
        self.store = JobCache()
        super().__init__(pods, **spec)

    def edit(self, **spec: Any) -> None:
        """Replace the specification."""
        self.spec, self.generation = spec, self.generation + 1
        self._take()

    def restart_controller(self) -> None:
        """Forget what only the process knows."""
        self.store = JobCache()

    def reconcile(self, pods: Any = "", after: float = 0, **changes: Any) -> Plan:
        self._take()
        job = self.store.get(NamespacedName("team", "fashion"))
        assert job is not None
        names = ("job", "problems", "generation", "template", "older", "partial", "restarted_at")
        stored = {name: getattr(job, name) for name in names}
        spec = self.spec
        self.spec = {}  # the view parses a specification of its own, which is not used
        try:
            return super().reconcile(pods, after, **(stored | changes))
        finally:
            self.spec = spec

    def _take(self) -> None:
        self.version += 1
        document = manifest(**self.spec)
        document["metadata"] |= {"uid": UID, "generation": self.generation, "resourceVersion": str(self.version)}
        self.store.upsert(
            document | {"metadata": document["metadata"] | {"annotations": self.annotations}, "status": self.status}
        )


def images(todo: Plan) -> set[str]:
    """Return the images of the pods to be created."""
    return {pod["spec"]["containers"][0]["image"] for pod in todo.creates}
