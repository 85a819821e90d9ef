"""What a gang scheduler is: it starts all replicas of a gang together, or none, by a PodGroup that names them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tfdist.api.gang_system import Availability, GangSystem
from tfdist.api.v1 import TFDistJob
from tfdist.render import names
from tfdist.render.gang import Gang, start_minimum
from tfdist.render.installation import Installation
from tfdist.render.metadata import Manifest, metadata
from tfdist.render.owned_kind import OwnedKind
from tfdist.render.pod import GroupFields
from tfdist.render.template import role_template


@dataclass(frozen=True, slots=True)
class GangScheduler:
    """One gang scheduler; each has a module of its own, and an entry in `choice.GANG_SCHEDULERS`."""

    system: GangSystem
    """Its name in `scheduling.gang` and in the status."""
    kind: OwnedKind
    """Kind of its PodGroups. The scheduler is there if the API server serves this kind."""
    remedy: str
    """What to do if it is missing."""
    specification: Callable[[TFDistJob, int, str], Manifest]
    """Returns the specification of a PodGroup, given the job, the minimum of members, and a PriorityClass or ""."""
    pod_fields: Callable[[str, str], GroupFields]
    """Returns the fields by which a pod belongs to a PodGroup, given the group's name and the pod's `schedulerName`."""
    auto_scheduler: str = ""
    """`schedulerName` of the pods for which `gang: Auto` chooses it; "" if `Auto` never does."""
    only_scheduler: str = ""
    """The one `schedulerName` that its pods can have; "" if any profile may have it."""
    queue: Callable[[TFDistJob], str] | None = None
    """Returns the queue in which the gangs of a job wait; None for a scheduler without queues."""
    retry_seconds: Callable[[TFDistJob], float] | None = None
    """Returns how often a waiting gang's PodGroup must change, so that it is considered again; None if never."""

    def pod_group(
        self,
        job: TFDistJob,
        gang: Gang,
        attempt: int,
        installation: Installation,
        *,
        countable_members: int | None = None,
        retries: int = 0,
    ) -> Manifest:
        """Return the PodGroup of a gang.

        Args:
            job: the job.
            gang: one of its gangs.
            attempt: the attempt in which its replicas started together.
            installation: its pod defaults may have the priority.
            countable_members: how many members the scheduler can count; None for all. It never waits for more.
            retries: how often its scheduler is to consider it again.
        """
        # A minimum above what the scheduler can count would never be reached (ADR 36).
        limit = len(gang.members) if countable_members is None else max(1, countable_members)
        minimum = min(start_minimum(job, gang), limit)
        meta = metadata(job, names.pod_group(job.metadata.name, gang.name, attempt))
        # A changed label is a change of the PodGroup, which makes Coscheduling consider its pods again.
        meta["labels"] |= {names.RETRY_LABEL: str(retries)} if retries else {}
        spec = self.specification(job, minimum, _priority_class(job, gang, installation))
        return {"apiVersion": self.kind.api_version, "kind": self.kind.kind, "metadata": meta, "spec": spec}

    def names_group(self, template: Manifest) -> bool:
        """Return whether a pod template, whose labels and annotations are set, names a PodGroup of the user's."""
        meta, fields = template["metadata"], self.pod_fields("", "")
        own = fields.spec.keys() - {"schedulerName"}
        marks = (fields.labels, meta["labels"]), (fields.annotations, meta["annotations"]), (own, template["spec"])
        return any(key in present for keys, present in marks for key in keys)

    def excluded_scheduler(self, job: TFDistJob, gang: Gang) -> str:
        """Return the first `schedulerName` in the templates of a gang that it cannot schedule; "" for none."""
        if not self.only_scheduler:
            return ""
        roles = dict.fromkeys(member.role for member in gang.members)
        schedulers = (role_template(job, role).get("spec", {}).get("schedulerName") for role in roles)
        return next((name for name in schedulers if name and name != self.only_scheduler), "")

    def unavailable(self, availability: Availability) -> str:
        """Return why a gang whose job requests it waits, and what to do; "" if the API server serves its kind."""
        resource = self.kind.resource
        match availability:
            case Availability.SERVED:
                return ""
            case Availability.UNKNOWN:
                return _UNKNOWN.format(resource=resource)
            case Availability.ABSENT:
                return (
                    f"scheduling.gang: {self.system}: the API server serves no {resource}; {self.remedy}, or choose "
                    "Auto in a new job"
                )


_UNKNOWN: Final = (
    "the controller does not know whether the API server serves {resource}; the gang waits until it does. If this "
    "lasts, see the controller's log for the cause, for example that its role lacks list and watch on {resource}; a "
    "job with scheduling.gang: None needs neither"
)


def _priority_class(job: TFDistJob, gang: Gang, installation: Installation) -> str:
    """Return the PriorityClass of the leader's pod; "" for the default of the cluster."""
    own = role_template(job, gang.leader.role).get("spec", {}).get("priorityClassName")
    default = installation.pod_defaults.get("spec", {}).get("priorityClassName")
    return str(own or job.spec.scheduling.priority_class_name or default or "")


def with_priority(specification: Manifest, priority: str) -> Manifest:
    """Return the specification of a PodGroup with a PriorityClass, unless its name is ""."""
    return specification | ({"priorityClassName": priority} if priority else {})
