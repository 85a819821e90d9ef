"""What the installation sets, from environment variables, checked once at the start."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import orjson

from tfdist import podspec
from tfdist.validation.semantics import without_image

_OWN_NAMESPACE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_EXAMPLE_DEFAULTS: Final = '{"spec": {"nodeSelector": {"pool": "training"}}}'
_SWITCH: Final = {"true": True, "false": False}


@dataclass(frozen=True)
class Config:
    """The controller's settings; each comes from the environment variable in its docstring."""

    trainer_image: str
    """TFDIST_TRAINER_IMAGE: image of jobs that name none."""
    namespaces: tuple[str, ...] = ()
    """TFDIST_NAMESPACE: the namespaces to act in, separated by commas; none for all."""
    pod_defaults: Mapping[str, Any] = field(default_factory=dict)
    """TFDIST_POD_DEFAULTS: part of a PodTemplateSpec as JSON, below what every job says, such as tolerations."""
    port: int = 8080
    """TFDIST_PORT: of /healthz, /readyz and /metrics."""
    workers: int = 16
    """TFDIST_WORKERS: jobs that are looked at in parallel."""
    progress_poll_seconds: float = 2.0
    """TFDIST_PROGRESS_POLL_SECONDS: how often a running job's coordinator is asked."""
    progress_write_seconds: float = 10.0
    """TFDIST_PROGRESS_WRITE_SECONDS: least time between two writes of a status in which only counters moved."""
    leader_election: bool = True
    """TFDIST_LEADER_ELECTION: `false` for a controller that is alone, which then needs no Lease."""
    lease_name: str = "tfdist-controller"
    """TFDIST_LEASE_NAME: the Lease by which replicas elect a leader."""
    lease_namespace: str = "tfdist-system"
    """TFDIST_LEASE_NAMESPACE: where it is; by default the controller's own namespace."""
    log_level: str = "INFO"
    """TFDIST_LOG_LEVEL: DEBUG, INFO, WARNING or ERROR."""


def from_environment(environment: Mapping[str, str] = os.environ) -> Config:
    """Return the settings.

    Raises:
        SystemExit: with every variable that is missing or malformed, and what it should be.
    """
    problems: list[str] = []

    def number(name: str, default: float) -> float:
        text = environment.get(name, str(default))
        try:
            value = float(text)
        except ValueError:
            value = -1.0
        if value <= 0:
            problems.append(f"{name}={text!r}: must be a positive number, such as {default}")
        return value

    def switch(name: str, *, default: bool) -> bool:
        text = environment.get(name, str(default)).lower()
        if text not in _SWITCH:
            problems.append(f"{name}={text!r}: must be true or false")
        return _SWITCH.get(text, default)

    image = environment.get("TFDIST_TRAINER_IMAGE", "")
    if not image:
        problems.append("TFDIST_TRAINER_IMAGE is not set: name the image for jobs that name none")
    config = Config(
        trainer_image=image,
        namespaces=_names(environment.get("TFDIST_NAMESPACE", "")),
        pod_defaults=_pod_defaults(environment.get("TFDIST_POD_DEFAULTS") or "{}", problems),
        port=int(number("TFDIST_PORT", Config.port)),
        workers=int(number("TFDIST_WORKERS", Config.workers)),
        progress_poll_seconds=number("TFDIST_PROGRESS_POLL_SECONDS", Config.progress_poll_seconds),
        progress_write_seconds=number("TFDIST_PROGRESS_WRITE_SECONDS", Config.progress_write_seconds),
        leader_election=switch("TFDIST_LEADER_ELECTION", default=Config.leader_election),
        lease_name=environment.get("TFDIST_LEASE_NAME", Config.lease_name),
        lease_namespace=environment.get("TFDIST_LEASE_NAMESPACE") or own_namespace(),
        log_level=environment.get("TFDIST_LOG_LEVEL", Config.log_level),
    )
    if problems:
        raise SystemExit("the controller cannot start:\n  " + "\n  ".join(problems))
    return config


def _names(text: str) -> tuple[str, ...]:
    """Return the names that are separated by commas, each once."""
    return tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def _pod_defaults(text: str, problems: list[str]) -> Mapping[str, Any]:
    """Return the template below those of all jobs; what is wrong with it joins `problems`."""
    try:
        given: Any = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        problems.append(f"TFDIST_POD_DEFAULTS: must be JSON, such as {_EXAMPLE_DEFAULTS}: {error}")
        return {}
    found = podspec.problems(given, "PodTemplateSpec", "", podspec.OVERLAY)
    mistakes = [f"TFDIST_POD_DEFAULTS: {path}: {message}" for path, message in found]
    if not mistakes:
        mistakes = [f"TFDIST_POD_DEFAULTS: the container {name!r} lacks an image" for name in without_image(given)]
    problems.extend(mistakes)
    return {} if mistakes else dict(given)


def own_namespace() -> str:
    """Return the namespace of this pod; outside of a cluster, the one that the manifests use."""
    return _OWN_NAMESPACE.read_text(encoding="utf-8").strip() if _OWN_NAMESPACE.exists() else Config.lease_namespace
