"""Service, NetworkPolicy and PodGroups of the job of `cluster_model`: their true state, and the state in the cache."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from tfdist.api.gang_system import GangSystem
from tfdist.desired.objects import ObjectName
from tfdist.desired.owned_kinds import POD_GROUPS, kind_of
from tfdist.planner import Plan

ALL = frozenset(POD_GROUPS)
Objects = dict[ObjectName, str]


class OwnedModel:
    """Objects by name, each with what it is made of; `requests` counts what they cost."""

    def __init__(self, requests: Counter[str]) -> None:
        self._requests = requests
        self.true: Objects = {}
        self._seen: Objects = {}

    def sync(self) -> None:
        """Let the controller see what is true."""
        self._seen = dict(self.true)

    @property
    def unseen(self) -> bool:
        """Whether the controller has not seen all of it."""
        return self._seen != self.true

    def apply(self, manifest: dict[str, Any]) -> None:
        """Apply a manifest to an object, unless the object is seen to match it."""
        name, content = ObjectName(kind_of(manifest), manifest["metadata"]["name"]), repr(manifest["spec"])
        if self._seen.get(name) != content:
            self._requests["apply"] += 1
            self.true[name] = self._seen[name] = content

    def remove(self, names: Sequence[ObjectName]) -> None:
        """Remove objects that are seen to be there."""
        for name in names:
            if self._seen.pop(name, None) is not None:
                self._requests["remove"] += 1
                self.true.pop(name, None)

    def tamper(self, which: int, *, delete: bool) -> None:
        """Have a user delete an object, or change it."""
        if not self.true:
            return
        name = sorted(self.true)[which % len(self.true)]
        if delete:
            del self.true[name]
        else:
            self.true[name] = "changed by hand"

    def check(self, todo: Plan, *, ending: bool, served: frozenset[GangSystem] = ALL) -> None:
        """Assert that everything is as a plan wants it.

        Args:
            todo: the plan.
            ending: whether the job has finished and its pods have not: it keeps its PodGroups until then.
            served: the gang schedulers whose API is served.
        """
        for manifest in todo.objects:
            name = ObjectName(kind_of(manifest), manifest["metadata"]["name"])
            assert self.true.get(name) == repr(manifest["spec"]), f"{name} was not repaired"
        assert not self.true.keys() & set(todo.obsolete), "an object that nothing needs is left"
        groups = {ObjectName(kind_of(manifest), manifest["metadata"]["name"]) for manifest in todo.objects}
        left = {name for name in self.true if name.kind in {POD_GROUPS[system] for system in served}} - groups
        assert ending or not left, f"PodGroups that nothing needs are left: {left}"

    def check_group(self, pod: dict[str, Any], served: frozenset[GangSystem]) -> str:
        """Assert that a pod is created after its PodGroup; return the PodGroup with its scheduler, "" for none.

        A controller that has not seen the deletion of a PodGroup may create the pod first: it waits for the PodGroup.
        """
        groups = [(system, name) for system in POD_GROUPS if (name := group_of(pod, system))]
        assert len(groups) <= 1, f"a pod belongs to several PodGroups: {groups}"
        for system, name in groups:
            is_seen = ObjectName(POD_GROUPS[system], name) in self._seen
            assert is_seen or system not in served, "a pod without a PodGroup"
            return f"{system}/{name}"
        return ""


def group_of(pod: dict[str, Any], system: GangSystem) -> str | None:
    """Return the name of the PodGroup of a gang scheduler that a manifest of a pod has."""
    fields: dict[GangSystem, str | None] = {
        GangSystem.NATIVE: pod["spec"].get("schedulingGroup", {}).get("podGroupName"),
        GangSystem.VOLCANO: pod["metadata"].get("annotations", {}).get("scheduling.k8s.io/group-name"),
        GangSystem.KAI: pod["metadata"].get("annotations", {}).get("pod-group-name"),
        GangSystem.COSCHEDULING: pod["metadata"]["labels"].get("scheduling.x-k8s.io/pod-group"),
    }
    return fields[system]
