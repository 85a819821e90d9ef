"""The configuration of a bundled program: its data files, metrics and optimizer."""

import re
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field, Tag

from tfdist import messages
from tfdist.programs.base import LIST, MAP, BrokenRule, Location, StrictModel, alternatives, union_error
from tfdist.programs.config import ProgramConfig
from tfdist.programs.metric_names import Task, is_metric, metric_names
from tfdist.programs.optimizer import OptimizerConfig

OBJECT_STORES: Final = ("gs://", "s3://")
"""Beginnings of the URLs of objects: Google Cloud Storage, and Amazon S3 or another server with its protocol."""

OBJECT_ENDPOINTS: Final = {
    "s3": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"),
    "gs": ("GOOGLE_BASE_URL",),
}
"""Variables that name another server, by scheme; the first that is set counts."""

_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/]*)/?(.*)", re.DOTALL)

Format = Literal["npz", "tfrecord", "csv", "tsv", "jsonl", "parquet", "text", "idx"]

WORKER: Final = re.compile(r"\{worker(?::0([1-9]))?\}")
"""Placeholder for the index of a worker in a pattern; `{worker:05}` is padded to five digits."""


def url_problem(name: str) -> str | None:
    """Return why `name`, a path, a URL or a pattern of either, is a URL that is not supported; None if it is not."""
    found = _URL.match(name)
    if found is None:
        return None
    scheme, bucket, key = found.groups()
    if f"{scheme}://" not in OBJECT_STORES:
        remedy = "use gs://bucket/key, s3://bucket/key, or the path of a mounted volume"
        return f"{name!r}: {scheme}:// is not supported; {remedy}"
    if not bucket or re.search(r"[*?\[{]", bucket):
        return f"{name!r} needs the name of a bucket, without wildcards: {scheme}://bucket/key"
    return None if key and not key.endswith("/") else f"{name!r} needs the key of an object, or a pattern of keys"


def _as_list(value: Any) -> Any:
    if isinstance(value, str):
        return [value]
    if not isinstance(value, list | tuple):
        raise union_error("must be a string or a list")
    return value


class FileList(StrictModel, defer_build=True):
    """A file that lists the data files."""

    file_list: str = Field(min_length=1)
    """Path or URL of a text file with a path, URL or pattern on each line; lines that begin with `#` are comments, and
    relative paths are relative to its folder."""

    def _broken_rules(self) -> Iterator[BrokenRule]:
        yield from super()._broken_rules()
        if WORKER.search(self.file_list):
            yield BrokenRule(("fileList",), "{worker} is not supported here; set it in the paths in the list")
        if problem := url_problem(self.file_list):
            yield BrokenRule(("fileList",), problem)


Patterns = Annotated[tuple[str, ...], Field(min_length=1), BeforeValidator(_as_list)]
"""One file pattern or a list of them."""
Files = Annotated[
    Annotated[Patterns, Tag(LIST)] | Annotated[FileList, Tag(MAP)],
    alternatives("must be a string, a list or an object"),
]
"""File patterns, or a file that lists them."""

ColumnName = Annotated[str, Field(min_length=1, max_length=200)]


class DataConfig(StrictModel, defer_build=True):
    """Data files and how to read them."""

    train: Files | None = None
    """Training files, as one pattern or a list, for example `/data/train-*.tfrecord`, or in an object store
    `s3://bucket/train-*.tfrecord` or `gs://bucket/train-*.tfrecord`; or `{fileList: /data/train.txt}`, a file that
    lists them. `{worker}` (or `{worker:05}`, padded to five digits) is replaced by the index of the worker, for data
    that is already partitioned."""
    eval: Files | None = None
    """Evaluation files, as `train`."""
    format: Format | None = None
    """`npz`, `tfrecord`, `csv`, `tsv`, `jsonl` (JSON lines), `parquet` (needs pyarrow in the image), `text` (an example
    in each file, in the folder of its class) or `idx`. By default detected from the end of the name: `.npz`,
    `.parquet`; `.csv`, `.tsv`, `.jsonl`, `.ndjson`, `.txt`, `ubyte` or `.idx`, also with `.gz`; anything else is
    TFRecord."""
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

    def _broken_rules(self) -> Iterator[BrokenRule]:
        yield from super()._broken_rules()
        for name, patterns in (("train", self.train), ("eval", self.eval)):
            if isinstance(patterns, FileList):
                continue
            yield from (BrokenRule((name,), problem) for each in patterns or () if (problem := url_problem(each)))
            if len({WORKER.search(pattern) is None for pattern in patterns or ()}) > 1:
                yield BrokenRule((name,), "only some patterns have {worker}; set it in all of them or in none")


class FilesConfig(ProgramConfig, defer_build=True):
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

    @property
    def scalar_metrics(self) -> tuple[str, ...]:
        """The names of the metrics that are one number, the loss included: one of them can select a checkpoint."""
        return ("loss", *(name for name in self.metric_names if name != "confusion_matrix"))

    def _broken_rules(self) -> Iterator[BrokenRule]:
        yield from super()._broken_rules()
        for number, name in enumerate(self.metrics or ()):
            if not is_metric(name, self.task):
                text = f"{messages.unsupported(name, metric_names(self.task))} (metrics of {self.task})"
                yield BrokenRule(("metrics", number), text)
        yield from _repeated(((("metrics", i), name) for i, name in enumerate(self.metrics or ())), "metric")


def repeated_columns(columns: Iterable[tuple[Location, str | None]]) -> Iterator[BrokenRule]:
    """Yield each column that is configured twice, at the location of its second use."""
    yield from _repeated(columns, "column")


def _repeated(names: Iterable[tuple[Location, str | None]], noun: str) -> Iterator[BrokenRule]:
    first: dict[str, Location] = {}
    for location, name in names:
        if name is None:
            continue
        if name in first:
            text = messages.duplicate(name, f"{messages.join_path(first[name])} has this {noun} too")
            yield BrokenRule(location, text)
        first.setdefault(name, location)
