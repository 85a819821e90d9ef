"""The controller's Prometheus metrics, defined once."""

from typing import Final

from prometheus_client import Counter, Gauge, Histogram

API_REQUESTS: Final = Counter("tfdist_api_requests", "Requests to the API server", ["verb", "resource", "code"])
WATCH_RESTARTS: Final = Counter("tfdist_watch_restarts", "Watches that ended and were resumed", ["resource"])
RESTARTS: Final = Counter("tfdist_restarts", "Restarts of gangs by the class of their root cause", ["reason"])
JOBS: Final = Gauge("tfdist_jobs", "Jobs by phase", ["phase"])
PODS: Final = Gauge("tfdist_pods", "Pods in the cache")
QUEUE_DEPTH: Final = Gauge("tfdist_queue_depth", "Jobs that wait for a look")
RECONCILE_SECONDS: Final = Histogram(
    "tfdist_reconcile_duration_seconds",
    "Duration of one look at a job with all its requests",
    buckets=(0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10),
)
PROGRESS_RATIO: Final = Gauge("tfdist_job_progress_ratio", "Finished part of training", ["namespace", "name"])
