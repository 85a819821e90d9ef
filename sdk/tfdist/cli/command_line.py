"""Command lines: groups of commands, and the arguments after `--`, which are a command line of their own."""

from typing import Any, Final

from typer.core import TyperCommand, TyperGroup

COMMAND: Final = "tfdist.command"
"""Key of the arguments after `--` in the context."""


class WithCommand(TyperCommand):
    """Keeps the arguments after `--` apart."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments before `--` and store the others."""
        end = args.index("--") if "--" in args else len(args)
        ctx.meta[COMMAND] = args[end + 1 :]
        remaining: list[str] = super().parse_args(ctx, args[:end])
        return remaining


class CommandGroup(TyperGroup):
    """Lists its commands with their whole first sentences, and imports no pydantic."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the options of the group; Typer's own flags, such as `--help`, have False instead of None as value.

        Typer imports pydantic to convert any value but that of a flag; `submit --help` and the completion of commands
        need no other.
        """
        options = super().get_params(ctx)
        for option in options:
            if option.default is None:
                option.default = False
        return options

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """List the commands with their whole first sentences, which Typer would cut at the width of the terminal."""
        for command in filter(None, (self.get_command(ctx, name) for name in self.list_commands(ctx))):
            command.short_help = (command.help or "").partition("\n\n")[0]
        super().format_commands(ctx, formatter)
