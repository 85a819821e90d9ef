"""Finds programs by name: built-in ones, and a user's class as `package.module:Class`.

The configuration of a built-in program is validated without importing TensorFlow; its class is imported afterwards. A
user's class is imported from the Python path, usually `PYTHONPATH`, to validate its configuration.
"""

import importlib
import inspect
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tfdist.programs import config_model
from tfdist.programs.config import ProgramConfig
from tfdist_trainer.errors import ConfigurationError, one_line
from tfdist_trainer.programs.config import parse_config

if TYPE_CHECKING:
    from tfdist_trainer.programs.base import Program

FIELD: Final = "training.program"


BUILT_IN: Final[Mapping[str, str]] = {
    "image_classification": "ImageClassification",
    "tabular": "Tabular",
    "text_classification": "TextClassification",
}
"""Class of each built-in program by name; the module below this package has the name of the program."""


@dataclass(frozen=True, slots=True)
class Choice:
    """An existing program and its validated configuration."""

    config: ProgramConfig
    place: str
    """`package.module:Class`."""

    def create(self) -> "Program":
        """Create the program. Imports TensorFlow.

        The methods of a user's program raise a ConfigurationError if they fail, or return a wrong object.
        """
        program: Program = _find(self.place)(self.config)
        if self.place.startswith(f"{__name__}."):
            return program
        from tfdist_trainer.programs.user_program import with_checks  # noqa: PLC0415  imports TensorFlow, as the class has

        return with_checks(program)


def choose(name: str, config: Mapping[str, Any]) -> Choice:
    """Return the program `name` with its configuration validated. A user's class is imported for that.

    Raises:
        ConfigurationError: the program is unknown, cannot be imported or is not a `Program`, or a field of
            `config` is wrong.
    """
    if ":" in name:
        return Choice(config=parse_config(_user_class(name).Config, config), place=name)
    if name not in BUILT_IN:
        names = ", ".join(sorted(BUILT_IN))
        raise ConfigurationError(
            f"{FIELD}: {name!r} is not a program of this image; known are {names}, "
            "and a class of your own as package.module:Class"
        )
    return Choice(config=parse_config(config_model(name), config), place=f"{__name__}.{name}:{BUILT_IN[name]}")


def _user_class(place: str) -> type["Program"]:
    """Return the user's class at `place`, a complete program.

    Raises:
        ConfigurationError: it cannot be imported, is not a `Program`, or lacks a method.
    """
    try:
        program_class = _find(place)
    except ConfigurationError:
        raise
    except Exception as error:
        traceback.print_exc()
        raise ConfigurationError(
            f"{FIELD}: cannot import {place!r}: {type(error).__name__}: {one_line(str(error))}"
        ) from None
    from tfdist_trainer.programs.base import Program  # noqa: PLC0415  imports TensorFlow, as the class has

    if not (inspect.isclass(program_class) and issubclass(program_class, Program)):
        raise ConfigurationError(f"{FIELD}: {place!r} is no subclass of tfdist_trainer.Program")
    # Python would tell it too, when the gang has met.
    if missing := sorted(program_class.__abstractmethods__):
        raise ConfigurationError(f"{FIELD}: {place!r} lacks {', '.join(f'{name}()' for name in missing)}")
    return program_class


def _find(place: str) -> Any:
    """Return what `package.module:Class` names, importing the module."""
    module_name, _, name = place.partition(":")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise  # the module exists, but one of its imports does not
        raise ConfigurationError(
            f"{FIELD}: there is no module {error.name!r}; it must be in the image or in training.source, "
            "whose folder is on PYTHONPATH"
        ) from None
    if not hasattr(module, name):
        raise ConfigurationError(f"{FIELD}: module {module_name!r} has no {name!r}")
    return getattr(module, name)
