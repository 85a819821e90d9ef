"""Support of this version for each field of the specification, for the CRD, validation, the converter and the docs.

No field is accepted and ignored: each is in `ACTED_ON`, or `PLANNED` rejects it (ADR 23). A test walks the models.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Planned:
    """A field of the specification, or some of its values, that this version does not support."""

    path: str
    """Path of the field below `spec`, such as `scheduling.gang`."""
    meaning: str
    """Planned effect."""
    values: tuple[str, ...] = ()
    """Unsupported values; empty if the whole field is unsupported."""

    @property
    def message(self) -> str:
        """Return the reason of the rejection and the remedy."""
        subject = f"{_listed(self.values)} {'are' if len(self.values) > 1 else 'is'} " if self.values else ""
        return f"{subject}not supported by this version of TFDist; planned. Remove the field."

    def is_used(self, spec: Mapping[str, Any]) -> bool:
        """Return whether a specification, as raw JSON of any form, has the field or one of the values."""
        value: Any = spec
        for name in self.path.split("."):
            value = value.get(name) if isinstance(value, Mapping) else None
        return value in self.values if self.values and isinstance(value, str) else not self.values and value is not None

    def cel(self, job: str) -> str:
        """Return in CEL whether the job, such as `self`, does not use it."""
        parts = self.path.split(".")
        absent = [f"!has({job}.spec.{'.'.join(parts[: end + 1])})" for end in range(len(parts))]
        if self.values:
            absent.append(f"!({job}.spec.{self.path} in [{', '.join(map(repr, self.values))}])")
        return " || ".join(absent)


def _listed(values: tuple[str, ...]) -> str:
    *others, last = values
    return f"{', '.join(others)} and {last}" if others else last


PLANNED: Final = (
    Planned("elastic", "run with as many workers as are available; a restart from a checkpoint changes their number"),
    Planned("oomPolicy", "more memory for the next attempt after an out-of-memory kill"),
    Planned("runPolicy.updateStrategy", "a change restarts the processes and keeps the pods", ("InPlace",)),
)
"""Unsupported fields, in the order of the documentation."""


def unsupported(spec: Any) -> tuple[Planned, ...]:
    """Return every unsupported feature that a raw specification of any form uses."""
    return tuple(each for each in PLANNED if each.is_used(spec)) if isinstance(spec, Mapping) else ()


class Actor(StrEnum):
    """Component that acts on a field."""

    CONTROLLER = "controller"
    """The controller reads it to create, restart or end replicas."""
    POD = "pods"
    """It is rendered into the objects that the controller creates."""
    TRAINER = "trainer"
    """The bundled trainer reads it; other programs find it in `TFDIST_JOB`."""


def _read_by(actor: Actor, *paths: str, below: str = "") -> dict[str, Actor]:
    return {f"{below}{path}": actor for path in paths}


ACTED_ON: Final[Mapping[str, Actor]] = {
    **_read_by(Actor.POD, "image", "imagePullPolicy", "command", "args", "workingDir", "env", "envFrom", "resources"),
    **_read_by(Actor.POD, "volumes", "volumeMounts", "template", "strategy", "task"),
    **_read_by(Actor.POD, "chief.replicas", "worker.replicas", "ps.replicas", "evaluator.replicas"),
    **_read_by(Actor.TRAINER, "program", "config", below="training."),
    **_read_by(Actor.TRAINER, "directory", "formats", "which", below="training.export."),
    **_read_by(Actor.POD, "script", "args", below="training."),
    **_read_by(Actor.POD, "requirements", below="training."),
    **_read_by(Actor.POD, "archive.name", "archive.parts", "archive.sha256", below="training.source."),
    **_read_by(Actor.POD, "configMap.name", "object.url", "object.sha256", below="training.source."),
    **_read_by(Actor.POD, "repository", "revision", "directory", below="training.source.git."),
    **_read_by(Actor.POD, "claimName", "directory", below="training.source.persistentVolumeClaim."),
    **_read_by(Actor.POD, "volume", below="checkpoint."),
    **_read_by(Actor.TRAINER, "directory", "everySteps", "everySeconds", "keep", "restore", below="checkpoint."),
    **_read_by(Actor.POD, "mode", "replicas", below="evaluation."),
    **_read_by(Actor.TRAINER, "metric", "goal", below="evaluation."),
    **_read_by(Actor.TRAINER, "checkpoint", "config", below="evaluation.ensemble."),
    **_read_by(Actor.TRAINER, "patience", "minDelta", below="evaluation.earlyStopping."),
    **_read_by(Actor.CONTROLLER, "deadlineSeconds", "onFailure", below="evaluation."),
    **_read_by(Actor.POD, "logDirectory", "image", "resources", below="tensorBoard."),
    **_read_by(Actor.CONTROLLER, "ttlSecondsAfterFinished", below="tensorBoard."),
    **_read_by(Actor.CONTROLLER, "suspend", "startDeadlineSeconds", "activeDeadlineSeconds", below="runPolicy."),
    **_read_by(Actor.CONTROLLER, "progressDeadlineSeconds", "backoffLimit", "cleanPodPolicy", below="runPolicy."),
    **_read_by(Actor.CONTROLLER, "keepFailedPods", "ttlSecondsAfterFinished", "managedBy", below="runPolicy."),
    **_read_by(Actor.CONTROLLER, "updateStrategy", below="runPolicy."),
    **_read_by(Actor.POD, "standby", below="runPolicy."),
    **_read_by(Actor.CONTROLLER, "successPolicy"),
    **_read_by(Actor.CONTROLLER, "action", "roles", "onMessagePattern", below="failurePolicy.rules."),
    **_read_by(Actor.CONTROLLER, "operator", "values", below="failurePolicy.rules.onExitCodes."),
    **_read_by(Actor.CONTROLLER, "type", "status", below="failurePolicy.rules.onPodConditions."),
    **_read_by(Actor.POD, "priorityClassName", "topologyKey", "gang", "queue", below="scheduling."),
    **_read_by(Actor.POD, "minAvailable", below="scheduling."),
    **_read_by(Actor.CONTROLLER, "timeoutSeconds", below="scheduling."),
    **_read_by(Actor.TRAINER, "gpuMemoryGrowth", "gpuMemoryLimitMiB", "gpuMemoryFraction", below="runtime."),
    **_read_by(Actor.TRAINER, "visibleDevices", "intraOpThreads", "interOpThreads", below="runtime."),
    **_read_by(Actor.TRAINER, "logDevicePlacement", below="runtime."),
    **_read_by(Actor.TRAINER, "mixedPrecision", "tensorFloat32", "xla", "deterministic", below="runtime."),
    **_read_by(Actor.TRAINER, "seed", "collective", below="runtime."),
    **_read_by(Actor.POD, "interfaces", "debug", below="runtime.network."),
    **_read_by(Actor.POD, "networkPolicy", "networkPolicyIngress"),
}
"""Component that acts on each supported field, and on the fields below it; a pod field of the job stands for all roles.
"""
