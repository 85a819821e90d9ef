"""Where the examples of a built-in program are, and how they are read."""

from typing import Annotated, Final, Literal, Self

import pydantic
from pydantic import Field

from tfdist_trainer.data.files import Part, Shard, Split, expand, part_of
from tfdist_trainer.data.formats import Format, format_of, is_labels
from tfdist_trainer.errors import ConfigurationError
from tfdist_trainer.metrics.names import Task, check
from tfdist_trainer.programs.config import PATH, ProgramConfig, StrictModel
from tfdist_trainer.programs.optimizer_config import OptimizerConfig


def _as_list(value: object) -> object:
    return [value] if isinstance(value, str) else value


Patterns = Annotated[tuple[str, ...], pydantic.BeforeValidator(_as_list), Field(min_length=1)]
"""One file pattern or a list of them."""

ColumnName = Annotated[str, Field(min_length=1, max_length=200)]

_NEEDED: Final = {Split.TRAIN: "train", Split.EVAL: "evaluate"}


class DataConfig(StrictModel):
    """Where the examples are, and how they are read."""

    train: Patterns | None = None
    """Files to train on, as one pattern or a list, for example `/data/train-*.tfrecord`. `{worker}` (or `{worker:05}`,
    in five digits) stands for a worker's number: data that is partitioned already."""
    eval: Patterns | None = None
    """Files to evaluate on."""
    format: Format | None = None
    """`npz`, `tfrecord`, `csv` or `idx`. By default the ending of the name says which: `.npz`, `.csv`, `.csv.gz`,
    `ubyte`, `ubyte.gz` or `.idx`; anything else is TFRecord."""
    compression: Literal["None", "GZIP"] | None = None
    """Compression of TFRecord files. By default `GZIP` for names that end in `.gz`, else none."""
    weight: ColumnName | None = None
    """Column with the weight of each example, in the loss and in metrics; absent weighs all alike."""
    on_bad_record: Literal["Fail", "Skip"] = "Fail"
    """A record that is damaged or not as configured ends the job with its file and number (`Fail`), or is counted
    and left out (`Skip`). To skip, TFRecord files are read once before training."""
    interleave: int = Field(default=4, ge=1, le=64)
    """TFRecord files that a worker reads at the same time, taking a record of each in turn."""
    cache: bool = False
    """Keep TFRecord files in memory after the first reading. The other formats are always kept."""

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
                f"{field_of(split)}: is absent, and there is nothing to {_NEEDED[split]} on without it"
            )
        return patterns

    def part(self, split: Split, shard: Shard) -> Part:
        """Return the files of `split` that pipeline `shard` reads; errors as of `part_of`.

        Labels in idx files are left out: they belong to the file of images beside them.
        """
        return part_of(
            self.patterns(split),
            field_of(split),
            shard,
            wanted=lambda name: self.format_of(name) != "idx" or not is_labels(name),
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
    """What built-in programs share: their data is in files."""

    data: DataConfig
    """Files with examples."""
    metrics: tuple[str, ...] | None = None
    """What is reported beside the loss. For classification `accuracy`, `top_<k>`, `precision`, `recall`, `f1`, `auc`
    and `confusion_matrix`; for regression `mean_squared_error`, `mean_absolute_error`, `root_mean_squared_error` and
    `r2`; for both Keras' own by class, such as `keras.Poisson`. By default `accuracy`, or `root_mean_squared_error`."""
    optimizer: OptimizerConfig = OptimizerConfig()
    """How gradients change the model."""

    @property
    def task(self) -> Task:
        """What is predicted."""
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
