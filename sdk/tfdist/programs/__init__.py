"""The configuration models of the bundled programs: the fields of `training.config`, without TensorFlow.

Validation and the trainer use the same models, so an error that needs no data is found before a pod exists. A model is
imported, and its validator built (`defer_build`), when it is first needed: most commands need one or none.
"""

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, cast

if TYPE_CHECKING:
    from tfdist.programs.data import FilesConfig

MODELS: Final[Mapping[str, str]] = {
    "image_classification": "ImageClassificationConfig",
    "tabular": "TabularConfig",
    "text_classification": "TextClassificationConfig",
}
"""Name of the model by program; the module has the name of the program."""


def config_model(program: str) -> "type[FilesConfig]":
    """Return the model of `training.config` of a bundled program.

    Raises:
        KeyError: no bundled program has this name.
    """
    name = MODELS[program]
    return cast("type[FilesConfig]", getattr(importlib.import_module(f"{__name__}.{program}"), name))
