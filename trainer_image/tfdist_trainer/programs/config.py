"""Parses the configuration of a program, and computes what the trainer needs from the fields that all programs have."""

import contextlib
from collections.abc import Mapping
from typing import Any, ClassVar, Final, TypeVar

import pydantic
from pydantic import ConfigDict

from tfdist.programs.batch_size import DEFAULT_BATCH_SIZE, uneven_batch
from tfdist.programs.config import ProgramConfig
from tfdist.programs.data import FilesConfig
from tfdist_trainer.data.files import Split, expand
from tfdist_trainer.errors import ConfigurationError
from tfdist_trainer.programs.data_files import patterns

PATH: Final = "training.config"
"""Path of the configuration in the job; every error message starts with it."""


class OpenConfig(ProgramConfig):
    """Accepts any other field too, as an attribute of the same name as in the job."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="allow")

    def __getattribute__(self, name: str) -> Any:
        """Return the job's field `name`, also if a method has that name; names with `model_` are Pydantic's."""
        if not name.startswith(("_", "model_")):
            with contextlib.suppress(AttributeError):  # during construction
                extra = super().__getattribute__("__pydantic_extra__")
                if name in extra:
                    return extra[name]
        return super().__getattribute__(name)


# Functions instead of methods, because a program may have fields of these names.


def files(config: ProgramConfig, split: Split) -> tuple[str, ...]:
    """Return the existing files of `split` for all workers; empty if the program does not read files.

    Raises:
        ConfigurationError: the configuration names no files for it.
        DataMissingError: a pattern matches no file, or the list of files is missing or empty.
    """
    return expand(patterns(config.data, split)) if isinstance(config, FilesConfig) else ()


def last_epoch(config: ProgramConfig) -> int:
    """Return the largest possible number of epochs; unlimited if `steps` is set."""
    return config.epochs if config.steps is None else 2**31 - 1


def rate_scale(config: ProgramConfig, examples: int) -> float:
    """Return the factor of the learning rate for a global batch of `examples`."""
    return examples / config.reference_batch_size if config.reference_batch_size else 1.0


def batch_size(config: ProgramConfig, replicas: int) -> int:
    """Return the examples per step on each of `replicas` replicas.

    Raises:
        ConfigurationError: `globalBatchSize` is not a multiple of `replicas`.
    """
    if problem := uneven_batch(config, replicas):
        raise ConfigurationError(f"{PATH}.{'.'.join(map(str, problem.location))}: {problem.message}")
    if config.global_batch_size is not None:
        return config.global_batch_size // replicas
    return config.batch_size_per_replica or DEFAULT_BATCH_SIZE


Config = TypeVar("Config", bound=ProgramConfig)


def parse_config(model: type[Config], config: Mapping[str, Any]) -> Config:
    """Return `config` as a `model`.

    Raises:
        ConfigurationError: a field is wrong; the message names the path of each such field.
    """
    try:
        return model.model_validate(config)
    except pydantic.ValidationError as error:
        # Imported here: only an error needs validation, which has the texts of `tfdist validate`.
        from tfdist.validation.config_errors import config_errors  # noqa: PLC0415

        errors = config_errors(error, model, config, PATH, "check its spelling")
        raise ConfigurationError("; ".join(map(str, errors))) from None
