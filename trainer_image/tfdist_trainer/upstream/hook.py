"""The description of a private hook, and the reaction to a missing one."""

import sys
from dataclasses import dataclass
from typing import Literal, NoReturn

from tfdist_trainer import log
from tfdist_trainer.errors import ConfigurationError
from tfdist_trainer.upstream.versions import RANGES


@dataclass(frozen=True, slots=True)
class Hook:
    """One private part of Keras or TensorFlow."""

    package: Literal["keras", "tensorflow"]
    name: str
    """Module and qualified name, `module:Class.attribute`."""
    reason: str
    """Why the public interface does not suffice."""
    missing: str
    """What the trainer does if an upstream version lacks it."""
    source: str = ""
    """Upstream file that defines it, if it is not the module in `name`."""
    since: str = ""
    """First minor version that has it, such as `3.12`; "" if all tested versions do."""
    parameters: tuple[str, ...] | None = None
    """Names of the parameters that callers rely on, in order; None if it is not a Python function."""

    @property
    def attribute(self) -> str:
        """Name of the attribute in its module or class."""
        return self.name.rpartition(":")[2].rpartition(".")[2]

    @property
    def versions(self) -> str:
        """The tested versions of the package, as a version specifier."""
        return RANGES[self.package]


def reject(hook: Hook) -> NoReturn:
    """End the replica because `hook` is missing and training would be wrong without it.

    Raises:
        ConfigurationError: always; a restart with the same image cannot succeed.
    """
    raise ConfigurationError(
        f"image: {hook.package} {_installed_version(hook)} has no {hook.name}, which this trainer needs; install "
        f"{hook.package}{hook.versions}"
    )


def fall_back(hook: Hook) -> None:
    """Log that `hook` is missing and the trainer uses the public behaviour instead."""
    log.event("hook-missing", hook=hook.name, version=_installed_version(hook), effect=hook.missing)


def _installed_version(hook: Hook) -> str:
    # Not of a distribution: a nightly one has another name.
    return str(getattr(sys.modules.get(hook.package), "__version__", "of unknown version"))
