"""What this process remembers of a job between two looks; all of it may be lost with the process."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tfdist.contract_reports import ProgressReport
from tfdist_operator.kube.pod_store import Key
from tfdist_operator.observed.view import Evidence, Pace, Report


@dataclass(slots=True)
class JobMemory:
    """Of one job, told from another of the same name by its UID."""

    uid: str
    report: Report | None = None
    """The coordinator's last progress report."""
    evaluated: ProgressReport | None = None
    """The evaluator's last report that told a result."""
    pace: Pace | None = None
    """How the steps of the present attempt follow each other."""
    evidence: Evidence | None = None
    """What the replicas of a stalled attempt said of themselves."""
    completed: Mapping[str, tuple[int, frozenset[str]]] = field(default_factory=dict)
    """Who has ended with success by the newest look, by gang, with the attempt."""
    status_written_at: float | None = None
    """When this process last wrote the status, on the monotonic clock."""
    refusal: str = ""
    """What the API server answered to the last creation, where it refused."""
    not_allowed_since: float | None = None
    """Since when our account is not allowed to create, on the monotonic clock."""
    made: dict[str, int] = field(default_factory=dict)
    """Of each kind of object that this process has made for the job, a hash of what it is."""
    looked: bool = False
    """Whether this process has carried out a plan for it: from then on nobody else's words are to be told again."""
    swept: bool = False
    """Whether the Service of the ended job was removed."""
    tensorboard_of: int | None = None
    """Generation for which the job's TensorBoard was made."""
    tensorboard_removed: bool = False


class Memory:
    """Memories by key, made when they are first asked for."""

    def __init__(self) -> None:
        self._jobs: dict[Key, JobMemory] = {}

    def __len__(self) -> int:
        return len(self._jobs)

    def of(self, key: Key, uid: str) -> JobMemory:
        """Return the memory of the job with this key and UID; that of an earlier job of the name is dropped."""
        known = self._jobs.get(key)
        if known is None or known.uid != uid:
            known = self._jobs[key] = JobMemory(uid)
        return known

    def forget(self, key: Key) -> None:
        """Drop what is remembered of a job that is gone."""
        self._jobs.pop(key, None)
