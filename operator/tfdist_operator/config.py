"""The controller's configuration, read from environment variables and checked once at the start."""

import json
import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from tfdist import podspec
from tfdist.api import patterns
from tfdist.render.installation import NAME_LABEL, Installation
from tfdist.validation.merged_pods import without_image
from tfdist.validation.metadata import label_problems
from tfdist.validation.structure import MAX_SPEC_BYTES

_OWN_NAMESPACE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_EXAMPLE_DEFAULTS: Final = '{"spec": {"nodeSelector": {"pool": "training"}}}'
_MOST_WORKERS: Final = 1000
_LARGEST_SPEC_BYTES: Final = 3 << 20
"""The API server stores no larger object."""
_LOG_LEVELS: Final = ("DEBUG", "INFO", "WARNING", "ERROR")
_DOMAIN: Final = re.compile(patterns.DNS_NAME)
_LONGEST_DOMAIN: Final = 253
_SWITCH: Final = {"true": True, "false": False}


@dataclass(frozen=True)
class Config:
    """The controller's settings; the docstring of each names its environment variable."""

    installation: Installation
    """What the plan of every job needs.

    TFDIST_TRAINER_IMAGE: default image of jobs.
    TFDIST_POD_DEFAULTS: defaults of the pods of all jobs, part of a PodTemplateSpec as JSON, such as tolerations.
    TFDIST_CLUSTER_DOMAIN: suffix of the addresses of replicas, such as `cluster.local`; empty for none.
    TFDIST_CONTROLLER_LABELS: labels as JSON that select the controller's pods in its namespace, for the
    NetworkPolicies of jobs; by default `app.kubernetes.io/name` with the name of the Lease, as the chart sets both.
    """
    namespaces: tuple[str, ...] = ()
    """TFDIST_NAMESPACE: namespaces whose jobs are reconciled, separated by commas; empty for all."""
    check_programs: bool = True
    """TFDIST_CHECK_PROGRAMS: `false` if the trainer image has other programs than the bundled ones; `training` of jobs
    with the default image is then checked only by the program, when it starts."""
    max_spec_bytes: int = MAX_SPEC_BYTES
    """TFDIST_MAX_SPEC_BYTES: size of the largest valid specification of a job or sweep, as JSON."""
    port: int = 8080
    """TFDIST_PORT: port of /healthz, /readyz and /metrics."""
    workers: int = 16
    """TFDIST_WORKERS: number of workers of the queue, which is the number of jobs reconciled in parallel."""
    progress_poll_seconds: float = 2.0
    """TFDIST_PROGRESS_POLL_SECONDS: interval at which a running job's coordinator is polled for its progress."""
    progress_write_seconds: float = 10.0
    """TFDIST_PROGRESS_WRITE_SECONDS: minimum time between two writes of a status in which only counters changed."""
    resync_seconds: float = 600.0
    """TFDIST_RESYNC_SECONDS: interval of the resync, which reconciles every job, changed or not; ±10 %."""
    leader_election: bool = True
    """TFDIST_LEADER_ELECTION: `false` for a controller with one replica, which then needs no Lease."""
    lease_name: str = "tfdist-controller"
    """TFDIST_LEASE_NAME: name of the Lease of the leader election."""
    lease_namespace: str = "tfdist-system"
    """TFDIST_LEASE_NAMESPACE: namespace of the Lease; by default the controller's."""
    webhook: str = ""
    """TFDIST_WEBHOOK: name of the admission webhook's Service and Secret in the controller's namespace; empty for no
    webhook. The name of its ValidatingWebhookConfiguration is this name, a dot, and the namespace."""
    webhook_port: int = 9443
    """TFDIST_WEBHOOK_PORT: port of the admission webhook."""
    log_level: str = "INFO"
    """TFDIST_LOG_LEVEL: log level: DEBUG, INFO, WARNING or ERROR."""


def from_environment(environment: Mapping[str, str] = os.environ) -> Config:
    """Return the settings.

    Raises:
        SystemExit: variables are missing or malformed; the message lists all of them with the expected values.
    """
    problems: list[str] = []
    variables = _Variables(environment, problems)
    image = environment.get("TFDIST_TRAINER_IMAGE", "")
    if not image:
        problems.append("TFDIST_TRAINER_IMAGE is not set: name the image for jobs that name none")
    config = Config(
        installation=Installation(
            image,
            cluster_domain=variables.domain("TFDIST_CLUSTER_DOMAIN"),
            namespace=own_namespace(),
            pod_defaults=_pod_defaults(environment.get("TFDIST_POD_DEFAULTS") or "{}", problems),
            controller_labels=_controller_labels(environment, problems),
        ),
        namespaces=_names(environment.get("TFDIST_NAMESPACE", "")),
        check_programs=variables.boolean("TFDIST_CHECK_PROGRAMS", default=Config.check_programs),
        max_spec_bytes=variables.whole_number("TFDIST_MAX_SPEC_BYTES", Config.max_spec_bytes, _LARGEST_SPEC_BYTES),
        port=variables.whole_number("TFDIST_PORT", Config.port, 65535),
        workers=variables.whole_number("TFDIST_WORKERS", Config.workers, _MOST_WORKERS),
        progress_poll_seconds=variables.number("TFDIST_PROGRESS_POLL_SECONDS", Config.progress_poll_seconds),
        progress_write_seconds=variables.number("TFDIST_PROGRESS_WRITE_SECONDS", Config.progress_write_seconds),
        resync_seconds=variables.number("TFDIST_RESYNC_SECONDS", Config.resync_seconds),
        leader_election=variables.boolean("TFDIST_LEADER_ELECTION", default=Config.leader_election),
        lease_name=environment.get("TFDIST_LEASE_NAME", Config.lease_name),
        lease_namespace=environment.get("TFDIST_LEASE_NAMESPACE") or own_namespace(),
        webhook=environment.get("TFDIST_WEBHOOK", ""),
        webhook_port=variables.whole_number("TFDIST_WEBHOOK_PORT", Config.webhook_port, 65535),
        log_level=variables.log_level("TFDIST_LOG_LEVEL"),
    )
    if problems:
        raise SystemExit("the controller cannot start:\n  " + "\n  ".join(problems))
    return config


@dataclass(frozen=True)
class _Variables:
    """Reads typed values from environment variables, and appends their errors to `problems`."""

    environment: Mapping[str, str]
    problems: list[str]

    def number(self, name: str, default: float) -> float:
        """Return a positive number."""
        text = self.environment.get(name, str(default))
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not (math.isfinite(value) and value > 0):
            self.problems.append(f"{name}={text!r}: must be a positive number, such as {default}")
        return value

    def whole_number(self, name: str, default: int, most: int) -> int:
        """Return a whole number from 1 to `most`."""
        text = self.environment.get(name, str(default))
        value = int(text) if text.isascii() and text.isdigit() and len(text) <= len(str(most)) else 0
        if not 1 <= value <= most:
            self.problems.append(f"{name}={text!r}: must be a whole number from 1 to {most}, such as {default}")
        return value

    def boolean(self, name: str, *, default: bool) -> bool:
        """Return a boolean."""
        text = self.environment.get(name, str(default)).lower()
        if text not in _SWITCH:
            self.problems.append(f"{name}={text!r}: must be true or false")
        return _SWITCH.get(text, default)

    def domain(self, name: str) -> str:
        """Return a DNS domain, or ""."""
        text = self.environment.get(name, "")
        if text and not (len(text) <= _LONGEST_DOMAIN and _DOMAIN.fullmatch(text)):
            self.problems.append(f"{name}={text!r}: must be a DNS domain, such as cluster.local")
        return text

    def log_level(self, name: str) -> str:
        """Return the name of a log level."""
        text = self.environment.get(name, Config.log_level)
        if text.upper() not in _LOG_LEVELS:
            self.problems.append(f"{name}={text!r}: must be {', '.join(_LOG_LEVELS[:-1])} or {_LOG_LEVELS[-1]}")
        return text.upper()


def _names(text: str) -> tuple[str, ...]:
    """Return the names of a comma-separated list without duplicates."""
    return tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def _pod_defaults(text: str, problems: list[str]) -> Mapping[str, Any]:
    """Return the defaults for the pods of all jobs, and append their errors to `problems`."""
    try:
        content: Any = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        problems.append(f"TFDIST_POD_DEFAULTS: must be JSON, such as {_EXAMPLE_DEFAULTS}: {error}")
        return {}
    problems_of_fields = podspec.problems(content, "PodTemplateSpec", "", podspec.OVERLAY)
    errors = [f"TFDIST_POD_DEFAULTS: {path}: {message}" for path, message in problems_of_fields]
    if not errors:
        errors = [f"TFDIST_POD_DEFAULTS: the container {name!r} lacks an image" for name in without_image(content)]
    problems.extend(errors)
    return {} if errors else dict(content)


def _controller_labels(environment: Mapping[str, str], problems: list[str]) -> Mapping[str, str]:
    """Return the labels of the controller's pods, and append their errors to `problems`.

    The default is for an installation without the chart. With labels that do not match,
    jobs run and their progress is not read; an empty selector, which admits every pod of the namespace, is rejected.
    """
    default = {NAME_LABEL: environment.get("TFDIST_LEASE_NAME", Config.lease_name)}
    text = environment.get("TFDIST_CONTROLLER_LABELS")
    if not text:
        return default
    try:
        content: Any = orjson.loads(text)
    except orjson.JSONDecodeError:
        content = None
    # An empty selector would admit every pod of the namespace, wrong labels only hide the progress of jobs (ADR 25).
    if isinstance(content, dict) and content and not list(label_problems({"labels": content}, "")):
        return dict(content)
    problems.append(f"TFDIST_CONTROLLER_LABELS={text!r}: must be labels as JSON, such as {json.dumps(default)}")
    return default


def own_namespace() -> str:
    """Return the namespace of this pod; outside of a cluster, the namespace in the manifests."""
    return _OWN_NAMESPACE.read_text(encoding="utf-8").strip() if _OWN_NAMESPACE.exists() else Config.lease_namespace
