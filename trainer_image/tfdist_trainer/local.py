"""Runs without Kubernetes: creates `TFDIST_JOB` from a file, a TFDistJob or only the fields that a trainer reads.

One process trains alone; several, each with its own `TF_CONFIG`, train as in pods. Volumes, sources and resources of a
manifest concern pods and are ignored.
"""

import hashlib
import json
import re
import uuid
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import Any, Final

from tfdist.api.v1 import Strategy, TFDistJob
from tfdist.contract import JOB_ENV, REPORT_PORT_ENV, TF_CONFIG_ENV, ReplicaJob, Role, Task
from tfdist.render.gang import Gang, GangName, Member
from tfdist.render.replica_job import replica_job
from tfdist.validation import ValidationFailed, parse
from tfdist_trainer import log
from tfdist_trainer.errors import ConfigurationError, UsageError, one_line

PARTS: Final = ("strategy", "task", "training", "checkpoint", "evaluation", "runtime", "tensorBoard")
"""Fields of a job's `spec` that concern a process; a file without `kind` may have only these."""

_POD_ROLES: Final = {"chief": Role.CHIEF, "worker": Role.WORKER, "ps": Role.PS, "evaluator": Role.EVALUATOR}


def prepare(path: Path, environ: MutableMapping[str, str]) -> None:
    """Set the environment of a pod in `environ`, from the file `path` and the `TF_CONFIG` in `environ`, if any.

    The report port is disabled unless the environment sets one: several processes share this machine.

    Raises:
        UsageError: the file cannot be read.
        ConfigurationError: a field is wrong; the message starts with its path.
    """
    document = _load(path)
    job = _job(document, path)
    if job.spec.training is not None and job.spec.training.script is not None:
        raise ConfigurationError(
            "training.script: this command runs programs; run a script by tfdist run --local, or by python"
        )
    replica = _replica_job(job, environ.get(TF_CONFIG_ENV))
    if job.spec.training is not None and job.spec.training.source is not None:
        log.event("no-effect", field="training.source", reason="a local run finds the program on PYTHONPATH")
    environ[JOB_ENV] = replica.to_json()
    environ.setdefault(REPORT_PORT_ENV, "0")


def _load(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--config: cannot read {path}: {getattr(error, 'strerror', None) or error}") from None
    import yaml  # noqa: PLC0415  only a local run reads YAML

    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise UsageError(f"--config: {path} is not YAML: {one_line(str(error))}") from None
    if not isinstance(document, dict):
        raise UsageError(f"--config: {path} holds no job: expected fields such as training, or a whole TFDistJob")
    return document


def _job(document: Mapping[str, Any], path: Path) -> TFDistJob:
    """Return the job of `document`, a whole one or parts of its `spec`."""
    is_manifest = "kind" in document
    if not is_manifest and (unknown := sorted(set(map(str, document)) - set(PARTS))):
        raise ConfigurationError(f"{unknown[0]}: not a field of a local run, which has {', '.join(PARTS)}")
    name = re.sub(r"[^a-z0-9]+", "-", path.stem.lower()).strip("-") or "local"
    manifest = (
        document
        if is_manifest
        else {
            "apiVersion": "tfdist.dev/v1",
            "kind": "TFDistJob",
            "metadata": {"name": name if name[0].isalpha() else f"job-{name}"},
            "spec": _with_roles(document),
        }
    )
    try:
        return parse(_with_volume(manifest), programs=False)  # the trainer validates the configuration
    except ValidationFailed as error:
        messages = [f"{problem.path}: {problem.message}" for problem in error.problems]
        raise ConfigurationError(
            "; ".join(messages if is_manifest else [text.removeprefix("spec.") for text in messages])
        ) from None


def _with_volume(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return `manifest` with a volume for its checkpoints, which processes on one machine do not need."""
    spec = manifest.get("spec")
    checkpoint = spec.get("checkpoint") if isinstance(spec, Mapping) else None
    if not isinstance(spec, Mapping) or not isinstance(checkpoint, Mapping):
        return dict(manifest)
    volume = {"volume": {"persistentVolumeClaim": {"claimName": "local"}}}
    return {**manifest, "spec": {**spec, "checkpoint": {**volume, **checkpoint}}}


def _with_roles(parts: Mapping[str, Any]) -> dict[str, Any]:
    """Return a `spec` with the minimum replicas of its strategy; `TF_CONFIG` has the real number."""
    if parts.get("strategy") == Strategy.PARAMETER_SERVER:
        return {**parts, "chief": {}, "worker": {"replicas": 1}, "ps": {"replicas": 1}}
    return {**parts, "worker": {"replicas": 1}}


def _replica_job(job: TFDistJob, tf_config: str | None) -> ReplicaJob:
    """Return the settings of this process; its role is that in `TF_CONFIG`, or the only one."""
    cluster, role, index = _cluster_position(tf_config)
    evaluates = job.spec.task is Task.EVALUATE
    gang = Gang(GangName.TRAINING, job.spec.task, ())
    # As the controller would render it, so that local runs and pods read the same settings.
    member = Member(Role.EVALUATION if evaluates else role, index)
    sizes = {str(name): len(addresses) for name, addresses in cluster.items()} or {str(member.role): 1}
    strategy = job.spec.strategy
    if not cluster and strategy is not Strategy.ONE_DEVICE:
        strategy = Strategy.MIRRORED  # all devices of this machine
    replica = replica_job(_with_uid(job, cluster), gang, member, 0, dict(cluster))
    return replica.model_copy(update={"replicas": sizes, "strategy": strategy.value})


def _cluster_position(tf_config: str | None) -> tuple[Mapping[str, list[str]], Role, int]:
    """Return cluster, role and index of `TF_CONFIG`; `environment.read_member` reports errors in it."""
    try:
        data = json.loads(tf_config or "{}")
        return data["cluster"], _POD_ROLES[data["task"]["type"]], int(data["task"]["index"])
    except (ValueError, KeyError, TypeError):
        return {}, Role.WORKER, 0


def _with_uid(job: TFDistJob, cluster: Mapping[str, list[str]]) -> TFDistJob:
    """Return `job` with its own UID, or a new one.

    A single process is a new job each time. The processes of a gang must agree on the UID, and what they share is the
    cluster in `TF_CONFIG`: with the same cluster they are the same job again.
    """
    shared = json.dumps(cluster, sort_keys=True).encode()
    # Processes of a gang share nothing but the cluster, and must agree on the UID.
    generated = hashlib.sha256(shared).hexdigest() if cluster else uuid.uuid4().hex
    uid = job.metadata.uid or f"local-{generated[:12]}"
    return job.model_copy(update={"metadata": job.metadata.model_copy(update={"uid": uid})})
