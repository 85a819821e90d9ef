"""Command lines: commands whose modules are imported on demand, and arguments after `--`."""

import functools
import importlib
import inspect
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from tfdist.cli.connection import ClusterOptions
from tfdist.cli.kinds import JOB
from tfdist.cli.options import CONNECTION

_AFTER_DASHES: Final = "tfdist.after_dashes"
"""Key of the arguments after `--` in the context."""
_PACKAGE: Final = "tfdist.cli.commands"


_INJECTED: Final = ("connection", "after_dashes")


class WithCommand(TyperCommand):
    """Keeps the arguments after `--` apart."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments before `--` and store the others."""
        end = args.index("--") if "--" in args else len(args)
        ctx.meta[_AFTER_DASHES] = args[end + 1 :]
        remaining: list[str] = super().parse_args(ctx, args[:end])
        return remaining


def command(function: Callable[..., int]) -> Any:
    """Return the command that a function declares, as Typer reads its signature and docstring.

    Two parameters are not options: `connection` is a `ClusterOptions`, and the command has its three options;
    `after_dashes` has the arguments after `--`, a command line of their own.
    """
    signature = inspect.signature(function)
    injected = [name for name in _INJECTED if name in signature.parameters]

    @functools.wraps(function)
    def run(ctx: typer.Context, **values: Any) -> int:
        if "connection" in injected:
            options = {option: values.pop(option) for option in CONNECTION}
            values["connection"] = ClusterOptions(**options, kind=ctx.obj or JOB)
        if "after_dashes" in injected:
            values["after_dashes"] = ctx.meta[_AFTER_DASHES]
        return function(**values)

    parameters = _parameters(signature, connects="connection" in injected)
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    declaration = typer.Typer(add_completion=False, rich_markup_mode=None)
    declaration.command(cls=WithCommand if "after_dashes" in injected else TyperCommand)(run)
    return typer.main.get_command(declaration)


def _parameters(signature: inspect.Signature, *, connects: bool) -> list[inspect.Parameter]:
    """Return the parameters that Typer reads: the context, its own, and the options of a connection."""
    context = inspect.Parameter("ctx", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
    own = [parameter for name, parameter in signature.parameters.items() if name not in _INJECTED]
    options = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
        for name, annotation in CONNECTION.items()
    ]
    return [context, *own, *(options if connects else ())]


class Entry(NamedTuple):
    """A command in the list of its group."""

    target: str
    """Module in `tfdist.cli.commands` and the name of the command in it: `show:describe`."""
    help: str
    """First sentence of its help."""


class _Unloaded(TyperCommand):
    """A command of which name and first sentence are known; its module is imported when it is called."""

    def __init__(self, name: str, entry: Entry) -> None:
        super().__init__(name, help=entry.help, short_help=entry.help, rich_markup_mode=None)
        self._target = entry.target

    def load(self) -> TyperCommand:
        module, _, name = self._target.partition(":")
        loaded: TyperCommand = getattr(importlib.import_module(f"{_PACKAGE}.{module}"), name)
        return loaded


class LazyGroup(TyperGroup):
    """A group that imports the module of a command only when the command, or the help of it, is called."""

    entries: ClassVar[Mapping[str, Entry]] = {}

    def __init__(self, **options: Any) -> None:
        """Take the options of Typer's own group."""
        super().__init__(**options)
        self.commands = {name: self.commands.get(name) or _Unloaded(name, entry)
                         for name, entry in self.entries.items()}  # fmt: skip

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the name and the command that `args` begin with, and the rest of them."""
        name, found, rest = super().resolve_command(ctx, args)
        try:
            return name, found.load() if isinstance(found, _Unloaded) else found, rest
        except ModuleNotFoundError:
            if ctx.resilient_parsing:  # completion: its errors would be printed into the line that is typed
                return name, found, rest
            raise

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the options of the group; Typer's own flags, such as `--help`, have False instead of None as value.

        Typer imports pydantic to convert any value except of a flag; the list and the completion of commands need no
        other.
        """
        options = super().get_params(ctx)
        for option in options:
            if option.default is None:
                option.default = False
        return options

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """List the commands with their whole first sentences, which Typer would cut at the width of the terminal."""
        for listed in self.commands.values():
            listed.short_help = (listed.help or "").partition("\n\n")[0]
        super().format_commands(ctx, formatter)
