"""The base of all programs' configurations: strict fields, and errors that name their path."""

import contextlib
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Final, Literal, Self, TypeVar

import pydantic
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from tfdist_trainer import log
from tfdist_trainer.data.files import Split
from tfdist_trainer.errors import ConfigurationError
from tfdist_trainer.programs.former_names import former_name, former_uses, renamed_values

PATH: Final = "training.config"
"""Path of the configuration in the job; every error message starts with it."""


class StrictModel(BaseModel):
    """Immutable; camel-case names; an unknown field is an error, because it is probably misspelled."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True, allow_inf_nan=False
    )


_FORMER_POLICIES: Final = {"Stop": "Fail", "Skip": "SkipStep"}


class Profile(StrictModel):
    """Steps to profile."""

    from_step: int = Field(default=100, ge=1)
    """First step to profile. By default, tracing and warm-up are over by then."""
    steps: int = Field(default=10, ge=1, le=1000)
    """Number of steps to profile."""


def exclusive(*pairs: tuple[str, str]) -> ConfigDict:
    """Return a model configuration that adds mutually exclusive fields to the JSON schema.

    `tfdist validate` reads the schema; the model needs a validator as well.
    """
    return ConfigDict(json_schema_extra={"allOf": [{"not": {"required": list(pair)}} for pair in pairs]})


class ProgramConfig(StrictModel):
    """Duration, batch size and data order of training."""

    model_config: ClassVar[ConfigDict] = exclusive(("epochs", "steps"), ("globalBatchSize", "batchSizePerReplica"))

    epochs: int = Field(default=1, ge=1)
    """Number of passes over the training data."""
    steps: int | None = Field(default=None, ge=1)
    """Number of training steps, instead of `epochs`."""
    batch_size_per_replica: int | None = Field(default=None, ge=1)
    """Examples per step on each replica. 128 if neither this nor `globalBatchSize` is set."""
    global_batch_size: int | None = Field(default=None, ge=1)
    """Examples per step over all replicas; must be a multiple of the number of replicas."""
    reference_batch_size: int | None = Field(default=None, ge=1, **former_name("referenceBatchSize", "baseBatchSize"))
    """The global batch size for which `learningRate` is tuned. With another global batch size the learning rate is
    scaled in proportion (linear scaling rule, Goyal et al., arXiv 1706.02677). Not scaled if absent. Formerly
    `baseBatchSize`."""
    learning_rate: float = Field(default=0.001, gt=0)
    """Learning rate of the optimizer. With a schedule it is the peak, after the warm-up."""
    seed: int = Field(default=0, ge=0, lt=2**31)
    """Random seed of the initial weights and of shuffling: equal seeds give equal training."""
    shuffle_buffer: int = Field(default=10_000, ge=0)
    """Size of the shuffle buffer of each worker, in examples. 0 or 1 disables shuffling. In-memory formats (`npz`,
    `csv`, `idx`, TFRecord with `cache`) always use a full permutation otherwise."""
    non_finite_policy: Annotated[Literal["Fail", "SkipStep"], renamed_values(_FORMER_POLICIES)] = Field(
        default="Fail", **former_name("nonFinitePolicy", "onNonFinite", _FORMER_POLICIES)
    )
    """Behavior when the loss or a gradient is not finite. `Fail`: training fails, with the last good checkpoint.
    `SkipStep`: the step counts with a gradient of zero; this checks the gradients of every step, which slows down
    small models. Formerly `onNonFinite` with `Stop` and `Skip`."""
    min_shard_bytes: int | None = Field(default=None, ge=1)
    """With strategy `ParameterServer`: shards variables over the parameter servers, with at least this size in bytes
    per shard. The model must then be of `tf_keras`. Variables are not sharded if absent."""
    profile: Profile | None = None
    """Steps to trace with the TensorBoard profiler. No trace if absent."""

    @pydantic.model_validator(mode="after")
    def _one_end(self) -> Self:
        if self.steps is not None and "epochs" in self.model_fields_set:
            raise ValueError("give epochs or steps, not both")
        return self

    @pydantic.model_validator(mode="after")
    def _one_batch_size(self) -> Self:
        if self.batch_size_per_replica is not None and self.global_batch_size is not None:
            raise ValueError("give globalBatchSize or batchSizePerReplica, not both")
        return self

    def files(self, split: Split) -> tuple[str, ...]:  # noqa: ARG002  used by subclasses
        """Return the existing files of `split`; empty if the program does not read files.

        Raises:
            ConfigurationError: the configuration names no files for it.
            DataMissingError: a pattern matches no file.
        """
        return ()


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
    """Return `ProgramConfig.files`, also if the program has a field of that name; the same errors."""
    return type(config).files(config, split)


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
    if config.global_batch_size is None:
        return config.batch_size_per_replica or 128
    if config.global_batch_size % replicas:
        raise ConfigurationError(
            f"{PATH}.globalBatchSize: {config.global_batch_size} is not a multiple of {replicas}, "
            "the number of replicas; change either, or give batchSizePerReplica"
        )
    return config.global_batch_size // replicas


Config = TypeVar("Config", bound=ProgramConfig)


def parse_config(model: type[Config], config: Mapping[str, Any]) -> Config:
    """Return `config` as a `model`, and log a warning for each former name in it.

    Raises:
        ConfigurationError: a field is wrong; the message has the path of each such field.
    """
    try:
        parsed = model.model_validate(config)
    except pydantic.ValidationError as error:
        raise ConfigurationError("; ".join(_explain(item) for item in error.errors())) from None
    for path, remedy in former_uses(model, config, PATH):
        log.event("deprecated", field=path, message=remedy)
    return parsed


def _explain(item: Any) -> str:
    path = PATH + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in item["loc"])
    if item["type"] == "extra_forbidden":
        return f"{path}: no such field; check its spelling"
    message = str(item["msg"]).removeprefix("Value error, ")
    given = item["input"]
    if item["type"] == "missing" or (isinstance(given, Mapping | Sequence) and not isinstance(given, str)):
        return f"{path}: {message}"
    return f"{path}: {message}, not {given!r}"
