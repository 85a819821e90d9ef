"""The group `tfdist sweep`, which declares its commands when one of them is needed: other commands start as before."""

from typing import Any, Final

import typer

from tfdist.cli.command_line import CommandGroup


class _Sweeps(CommandGroup):
    """Declares its commands on demand."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands."""
        self._declare()
        return super().list_commands(ctx)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command; None if there is none of this name."""
        self._declare()
        return super().get_command(ctx, cmd_name)

    def _declare(self) -> None:
        if not self.commands:
            from tfdist.cli.declarations.sweeps import sweeps  # noqa: PLC0415  imported on demand

            group: Any = typer.main.get_command(sweeps)
            self.commands = group.commands


sweep_group: Final = typer.Typer(
    name="sweep",
    cls=_Sweeps,
    help="Run and compare trials of a job with different values of parameters.",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"max_content_width": 120},
)
