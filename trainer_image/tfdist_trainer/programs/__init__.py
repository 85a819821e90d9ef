"""The built-in programs by name.

A program is found, and its configuration checked, without importing TensorFlow; its class is imported when
the configuration is known to be right.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from tfdist_trainer.errors import ConfigurationError
from tfdist_trainer.programs import image_classification_config
from tfdist_trainer.programs.config import ProgramConfig, parse_config

if TYPE_CHECKING:
    from tfdist_trainer.programs.base import Program

CONFIGS: Final[Mapping[str, type[ProgramConfig]]] = {
    "image_classification": image_classification_config.ImageClassificationConfig,
}


def configure(name: str, config: Mapping[str, Any]) -> ProgramConfig:
    """Return the validated configuration of the program `name`.

    Raises:
        ConfigurationError: the program is not known, or a field of `config` is wrong.
    """
    if name not in CONFIGS:
        known = ", ".join(sorted(CONFIGS))
        raise ConfigurationError(f"training.program: {name!r} is not a program of this image; known are {known}")
    return parse_config(CONFIGS[name], config)


def create(config: ProgramConfig) -> "Program":
    """Return the program that `config` configures. Imports TensorFlow."""
    from tfdist_trainer.programs.image_classification import ImageClassification  # noqa: PLC0415  see above

    if isinstance(config, image_classification_config.ImageClassificationConfig):
        return ImageClassification(config)
    raise TypeError(f"no program takes a {type(config).__name__}")
