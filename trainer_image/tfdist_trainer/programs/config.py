"""What the configurations of all built-in programs share: strict fields and errors that name their path."""

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, Literal, Self, TypeVar

import pydantic
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from tfdist_trainer.data.files import Split
from tfdist_trainer.errors import ConfigurationError

PATH: Final = "training.config"
"""Where the configuration stands in the job; every error message starts with it."""


class StrictModel(BaseModel):
    """Immutable; camel-case names; a field that is not known is an error, because it is a misspelled one."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True, allow_inf_nan=False
    )


class Profile(StrictModel):
    """Which steps the profiler watches."""

    from_step: int = Field(default=100, ge=1)
    """The first of them; tracing and warming up are over by then."""
    steps: int = Field(default=10, ge=1, le=1000)
    """How many."""


class ProgramConfig(StrictModel):
    """How long, in which batches and in which order a program trains."""

    epochs: int = Field(default=1, ge=1)
    """How many times training sees every example of `data.train`."""
    steps: int | None = Field(default=None, ge=1)
    """Number of steps to train, instead of `epochs`."""
    batch_size_per_replica: int | None = Field(default=None, ge=1)
    """Examples in one step on each replica. The default, when `globalBatchSize` is absent too, is 128."""
    global_batch_size: int | None = Field(default=None, ge=1)
    """Examples in one step over all replicas; it must be a multiple of their number."""
    base_batch_size: int | None = Field(default=None, ge=1)
    """The global batch size that `learningRate` is meant for: with another one the rate grows or shrinks in
    proportion (Goyal et al., arXiv 1706.02677). Absent leaves the rate as it is."""
    learning_rate: float = Field(default=0.001, gt=0)
    """Adam's step size."""
    seed: int = Field(default=0, ge=0, lt=2**31)
    """Seeds the initial weights and the order of examples: equal seeds give equal training."""
    shuffle_buffer: int = Field(default=10_000, ge=0)
    """Examples that each worker mixes at random; 0 keeps the order of the files. Those that are in memory are all
    mixed, whatever it says beyond 1."""
    on_non_finite: Literal["Stop", "Skip"] = "Stop"
    """What a step does whose loss or gradient is not finite: ends training with the last good checkpoint (`Stop`),
    or counts as a gradient of zero (`Skip`). To skip, every gradient has to be looked at, which small models feel."""
    min_shard_bytes: int | None = Field(default=None, ge=1)
    """With strategy `ParameterServer`: variables are divided over the ps into shards of at least so many bytes. The
    model is then one of `tf_keras`; absent, each variable is on one ps as a whole."""
    profile: Profile | None = None
    """Steps of which TensorBoard's profiler makes a trace; by default none."""

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

    def files(self, split: Split) -> tuple[str, ...]:  # noqa: ARG002  for those that have some
        """Return the existing files of `split`; none when the program finds its data by other means.

        Raises:
            ConfigurationError: the configuration names no files for it.
            DataMissingError: a pattern matches no file.
        """
        return ()


class OpenConfig(ProgramConfig):
    """Takes any other field too, as an attribute of the name that the job gives it."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="allow")

    def __getattribute__(self, name: str) -> Any:
        """Return the job's field `name` before a method that is called so; `model_` is Pydantic's own."""
        if not name.startswith(("_", "model_")):
            with contextlib.suppress(AttributeError):  # while the object is made
                extra = super().__getattribute__("__pydantic_extra__")
                if name in extra:
                    return extra[name]
        return super().__getattribute__(name)


# Functions, and not methods, because a program may have fields of these names.


def files(config: ProgramConfig, split: Split) -> tuple[str, ...]:
    """Return `ProgramConfig.files`, also where the program has a field of that name; the same errors."""
    return type(config).files(config, split)


def last_epoch(config: ProgramConfig) -> int:
    """Return the number of epochs that training may begin: more than enough when `steps` ends it."""
    return config.epochs if config.steps is None else 2**31 - 1


def rate_scale(config: ProgramConfig, examples: int) -> float:
    """Return what the learning rate is multiplied by when an update averages over so many `examples`."""
    return examples / config.base_batch_size if config.base_batch_size else 1.0


def batch_size(config: ProgramConfig, replicas: int) -> int:
    """Return the examples in one step on each of `replicas` replicas.

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
    """Return `config` as a `model`.

    Raises:
        ConfigurationError: with the path of every field that is wrong.
    """
    try:
        return model.model_validate(config)
    except pydantic.ValidationError as error:
        raise ConfigurationError("; ".join(_explain(item) for item in error.errors())) from None


def _explain(item: Any) -> str:
    path = PATH + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in item["loc"])
    if item["type"] == "extra_forbidden":
        return f"{path}: no such field; check its spelling"
    message = str(item["msg"]).removeprefix("Value error, ")
    given = item["input"]
    if item["type"] == "missing" or (isinstance(given, Mapping | Sequence) and not isinstance(given, str)):
        return f"{path}: {message}"
    return f"{path}: {message}, not {given!r}"
