"""Trains and evaluates under `tf.distribute`, as one replica of a TFDistJob.

A program of your own is a subclass of `Program` (docs/trainer.md). A script of your own does not need this package,
and may report its progress with `report`.

The import of this package does not import TensorFlow, nor does anything before the configuration is validated: an
error in the configuration is reported in a fraction of a second.
"""

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tfdist.programs.config import ProgramConfig as ProgramConfig
    from tfdist_trainer.data.files import Shard as Shard
    from tfdist_trainer.data.files import Split as Split
    from tfdist_trainer.metrics.additive import WeightedMean as WeightedMean
    from tfdist_trainer.programs.base import Program as Program
    from tfdist_trainer.script import report as report

__version__ = "0.1.0"

_PUBLIC: Final = {
    "Program": "tfdist_trainer.programs.base",
    "ProgramConfig": "tfdist.programs.config",
    "Shard": "tfdist_trainer.data.files",
    "Split": "tfdist_trainer.data.files",
    "WeightedMean": "tfdist_trainer.metrics.additive",
    "report": "tfdist_trainer.script",
}
"""Public names and their modules, which are imported on first access."""


def __getattr__(name: str) -> Any:
    """Return the public `name`; imports its module."""
    import importlib  # noqa: PLC0415  as above

    if name == "keras":
        return importlib.import_module("tfdist_trainer.keras")
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    """Return the names of this package, including those not imported yet."""
    return sorted({*globals(), *_PUBLIC})
