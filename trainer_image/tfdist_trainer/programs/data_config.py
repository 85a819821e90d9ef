"""The configuration of the data files of a built-in program."""

from typing import Annotated, Final, Literal, Self

import pydantic
from pydantic import Field

from tfdist_trainer.data.files import FileAssignment, Shard, Split, expand, file_assignment
from tfdist_trainer.data.formats import Format, format_of, is_labels
from tfdist_trainer.errors import ConfigurationError
from tfdist_trainer.metrics.names import Task, check
from tfdist_trainer.programs.config import PATH, ProgramConfig, StrictModel
from tfdist_trainer.programs.optimizer_config import OptimizerConfig


def _as_list(value: object) -> object:
    return [value] if isinstance(value, str) else value


Patterns = Annotated[
    Annotated[tuple[str, ...], Field(min_length=1)],
    pydantic.BeforeValidator(_as_list, json_schema_input_type=str | Annotated[tuple[str, ...], Field(min_length=1)]),
]
"""One file pattern or a list of them."""

ColumnName = Annotated[str, Field(min_length=1, max_length=200)]

_NEEDED: Final = {Split.TRAIN: "train", Split.EVAL: "evaluate"}


class DataConfig(StrictModel):
    """Data files and how to read them."""

    train: Patterns | None = None
    """Training files, as one pattern or a list, for example `/data/train-*.tfrecord`. `{worker}` (or `{worker:05}`,
    padded to five digits) is replaced by the index of the worker, for data that is already partitioned."""
    eval: Patterns | None = None
    """Evaluation files, as one pattern or a list."""
    format: Format | None = None
    """`npz`, `tfrecord`, `csv` or `idx`. By default detected from the end of the name: `.npz`, `.csv`,
    `.csv.gz`, `ubyte`, `ubyte.gz` or `.idx`; anything else is TFRecord."""
    compression: Literal["None", "GZIP"] | None = None
    """Compression of TFRecord files. By default `GZIP` for names that end in `.gz`."""
    weight: ColumnName | None = None
    """Column of example weights, for the loss and the metrics. All weights are 1 if absent."""
    on_bad_record: Literal["Fail", "Skip"] = "Fail"
    """Behavior on a record that is damaged or does not match the configuration. `Fail`: the job fails, with the file
    and the index of the record. `Skip`: the record is skipped and counted; TFRecord files are then read once before
    training."""
    interleave: int = Field(default=4, ge=1, le=64)
    """Number of TFRecord files that a worker reads in parallel, interleaving their records."""
    cache: bool = False
    """Keep TFRecord files in memory after they are first read. Files of other formats are always kept in memory."""

    def format_of(self, name: str) -> Format:
        """Return the format of the file or pattern `name`."""
        return self.format or format_of(name)

    def is_gzip(self, name: str) -> bool:
        """Return whether the TFRecord file `name` is compressed."""
        return name.endswith(".gz") if self.compression is None else self.compression == "GZIP"

    def patterns(self, split: Split) -> tuple[str, ...]:
        """Return the patterns of `split`.

        Raises:
            ConfigurationError: there are none.
        """
        patterns = self.train if split is Split.TRAIN else self.eval
        if not patterns:
            raise ConfigurationError(
                f"{field_of(split)}: required, and absent: there is nothing to {_NEEDED[split]} on"
            )
        return patterns

    def part(self, split: Split, shard: Shard, *, by_record: bool = False) -> FileAssignment:
        """Return the files of `split` that pipeline `shard` reads; errors as of `file_assignment`.

        idx files of labels are left out: they are read with their file of images.
        """
        return file_assignment(
            self.patterns(split),
            field_of(split),
            shard,
            wanted=lambda name: self.format_of(name) != "idx" or not is_labels(name),
            by_record=by_record,
        )

    def kind(self, split: Split, files: tuple[str, ...]) -> tuple[Format, bool]:
        """Return the format of `files`, and whether they are compressed TFRecord files.

        Raises:
            ConfigurationError: they are of different formats or compressions.
        """
        kinds = {(self.format_of(name), self.is_gzip(name)) for name in files}
        if len({kind for kind, _ in kinds}) > 1 or ("tfrecord" in {kind for kind, _ in kinds} and len(kinds) > 1):
            raise ConfigurationError(
                f"{field_of(split)}: matches files of different formats or compressions: "
                f"{files[0]} ... {files[-1]}; give them one by one or set data.format"
            )
        return min(kinds, default=("npz", False))


def field_of(split: Split) -> str:
    """Return the path of the field with the files of `split`."""
    return f"{PATH}.data.{split}"


class FilesConfig(ProgramConfig):
    """Fields of all built-in programs."""

    data: DataConfig
    """Data files and how to read them."""
    metrics: tuple[str, ...] | None = None
    """Metrics to report in addition to the loss. For classification `accuracy`, `top_<k>`, `precision`, `recall`, `f1`,
    `auc` and `confusion_matrix`; for regression `mean_squared_error`, `mean_absolute_error`, `root_mean_squared_error`
    and `r2`; for both also Keras metrics by class, such as `keras.Poisson`. By default `accuracy`, or
    `root_mean_squared_error`."""
    optimizer: OptimizerConfig = OptimizerConfig()
    """Optimizer, learning-rate schedule and gradient clipping."""

    @property
    def task(self) -> Task:
        """The kind of prediction."""
        return "classification"

    @property
    def metric_names(self) -> tuple[str, ...]:
        """The names of the metrics to report."""
        default = "accuracy" if self.task == "classification" else "root_mean_squared_error"
        return (default,) if self.metrics is None else self.metrics

    @pydantic.model_validator(mode="after")
    def _metrics_exist(self) -> Self:
        check(self.metric_names, self.task)
        return self

    def files(self, split: Split) -> tuple[str, ...]:
        """Return the files of `split`, those of all workers; see the base class."""
        return expand(self.data.patterns(split), field_of(split))
