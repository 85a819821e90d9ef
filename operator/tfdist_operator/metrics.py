"""The controller's Prometheus metrics, defined once; docs/metrics.md explains their use."""

from itertools import product
from typing import Final

from prometheus_client import Counter, Gauge, Histogram, disable_created_metrics

from tfdist.api.status import JobPhase
from tfdist.failure_classification import OTHER, RULES, STALLED

disable_created_metrics()  # type: ignore[no-untyped-call]  # an unused second series for each counter

_JOB: Final = ["namespace", "name"]

JOBS: Final = Gauge("tfdist_jobs", "Jobs by phase", ["phase"])
LONGEST_START_SECONDS: Final = Gauge(
    "tfdist_longest_start_seconds", "How long the job that has been in phase Starting longest has waited for replicas"
)
JOB_DURATION: Final = Histogram(
    "tfdist_job_duration_seconds",
    "Time from a job's creation to its end",
    ["result"],
    buckets=(10, 30, 60, 300, 900, 3600, 4 * 3600, 12 * 3600, 24 * 3600, 72 * 3600, 7 * 24 * 3600),
)
RESTARTS: Final = Counter("tfdist_restarts", "Restarts of gangs by the class of their root cause", ["reason"])
PROGRESS_RATIO: Final = Gauge("tfdist_job_progress_ratio", "Finished part of training", _JOB)
EXAMPLES_PER_SECOND: Final = Gauge("tfdist_job_examples_per_second", "Examples trained on in a second", _JOB)
STEP_TIME_SECONDS: Final = Gauge("tfdist_job_step_time_seconds", "Duration of one training step", _JOB)
PER_JOB: Final = (PROGRESS_RATIO, EXAMPLES_PER_SECOND, STEP_TIME_SECONDS)
"""Metrics with a series for each running job, which is removed when the job stops running."""

LEADER: Final = Gauge("tfdist_leader", "1 on the replica that leads, 0 on a standby")
RECONCILE_SECONDS: Final = Histogram(
    "tfdist_reconcile_duration_seconds",
    "Duration of one reconcile of a job, including its requests",
    buckets=(0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10),
)
QUEUE_DEPTH: Final = Gauge("tfdist_queue_depth", "Number of keys in the work queue")
QUEUE_LATENCY_SECONDS: Final = Histogram(
    "tfdist_queue_latency_seconds",
    "Time that a key waits in the work queue",
    buckets=(0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10),
)
API_REQUESTS: Final = Counter("tfdist_api_requests", "Requests to the API server", ["verb", "resource", "code"])
WATCH_RESTARTS: Final = Counter("tfdist_watch_restarts", "Watches that ended and were resumed", ["resource"])
RESYNCS: Final = Counter("tfdist_resyncs", "Resyncs: every job is reconciled, changed or not")
REPAIRS: Final = Counter(
    "tfdist_repairs",
    "Objects of jobs that other clients deleted or changed, and that were repaired",
    ["kind"],
)
CACHE_CORRECTIONS: Final = Counter(
    "tfdist_cache_corrections", "Cached objects that were older than the API server's, or deleted there", ["resource"]
)
CACHED: Final = Gauge("tfdist_cached_objects", "Objects in the caches", ["resource"])
SLOW_OBJECTS: Final = Counter(
    "tfdist_slow_objects", "Times that parsing or planning an object took over a second of CPU time", ["kind", "work"]
)
LOOP_LAG_SECONDS: Final = Gauge("tfdist_event_loop_lag_seconds", "Longest delay of the event loop in the last minute")


def initialize_series() -> None:
    """Create the series of counters at 0: Prometheus does not detect an increase from absent to 1."""
    for reason in (*(rule.classification.reason for rule in RULES), STALLED.reason, "Resized", OTHER):
        RESTARTS.labels(reason=reason)
    for result in (JobPhase.SUCCEEDED, JobPhase.FAILED):
        JOB_DURATION.labels(result=result)
    for kind, work in product(("job", "sweep"), ("parse", "plan")):
        SLOW_OBJECTS.labels(kind=kind, work=work)
