"""Export: the models that training leaves for serving."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from tfdist.api.base import SET, ApiModel, CrossFieldRule
from tfdist.api.scalars import Directory, distinct


class ExportFormat(StrEnum):
    """Format of an exported model."""

    KERAS = "Keras"
    SAVED_MODEL = "SavedModel"


class ExportedModel(StrEnum):
    """Model of a training that is exported."""

    FINAL = "Final"
    BEST = "Best"


class ExportSpec(ApiModel):
    """The models that training leaves for serving."""

    cross_field_rules = (
        CrossFieldRule(
            "!has(self.directory) || self.directory.startsWith('/') || self.directory.startsWith('s3://') || "
            "self.directory.startsWith('gs://')",
            "directory must be an absolute path or a URL (s3, gs); mount a volume there, or remove it",
            ".directory",
            lambda self: self.directory is None or self.directory.startswith(("/", "s3://", "gs://")),
        ),
    )

    directory: Directory | None = None
    """Absolute path on a volume of the pods, or a URL of an object store such as `s3://bucket/models/{name}`, in which
    the folders `final` and `best` are created. `{name}`, `{namespace}` and `{uid}` are replaced by the metadata of the
    job. Defaults to the folder `export` in `checkpoint.directory`."""
    formats: Annotated[list[ExportFormat], Field(min_length=1, max_length=2, json_schema_extra=SET), distinct()] = [
        ExportFormat.KERAS
    ]
    """Formats of each model. `Keras`: `model.keras`, for `keras.models.load_model`; `SavedModel`: the folder
    `saved_model`, for `tf.saved_model.load` and TensorFlow Serving."""
    which: Annotated[list[ExportedModel], Field(min_length=1, max_length=2, json_schema_extra=SET), distinct()] = [
        ExportedModel.FINAL
    ]
    """Models to export. `Final`: the model after the last step; `Best`: the model with the best evaluation, which
    requires `evaluation.mode` `Continuous` or `Both`, or the validation data of a script."""
