"""The arguments after `--`, which are a command line of their own."""

from typing import Any, Final

from typer.core import TyperCommand

COMMAND: Final = "tfdist.command"
"""Key of the arguments after `--` in the context."""


class WithCommand(TyperCommand):
    """Keeps the arguments after `--` apart."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments before `--` and store the others."""
        end = args.index("--") if "--" in args else len(args)
        ctx.meta[COMMAND] = args[end + 1 :]
        rest: list[str] = super().parse_args(ctx, args[:end])
        return rest
