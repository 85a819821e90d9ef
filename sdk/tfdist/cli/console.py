"""Console of a run: the log lines of the replicas, prefixed with their names, and the progress below them.

On a terminal Rich redraws the progress in place as the last line; elsewhere progress is a plain line every 10 seconds.
Rich decides about colour: none outside terminals, and none with NO_COLOR (https://no-color.org). A line keeps the
colours of its pod; its other control sequences become visible text, in files and pipes too: they are read on terminals.
"""

import errno
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle
from typing import Final, TextIO

from rich import console as rich_console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.segment import Segment
from rich.style import Style
from rich.table import Table
from rich.text import Text

from tfdist.local import progress
from tfdist.local.progress import Shown
from tfdist.printable import printable, printable_line
from tfdist.progress import percent

_COLOURS: Final = ("cyan", "yellow", "green", "magenta", "blue", "bright_cyan", "bright_yellow", "bright_green")
_BAR_WIDTH: Final = 20
_GAP: Final = 2
_PLAIN_SECONDS: Final = 10.0


class _Terminal(rich_console.Console):
    """Rich's console; a closed pipe raises BrokenPipeError instead of ending the process."""

    def on_broken_pipe(self) -> None:
        raise  # noqa: PLE0704  Rich calls it in the handler of BrokenPipeError


class _Lines:
    """Log lines with prefixes, which Rich writes as they are: as `Text` they would take a hundred times as long."""

    def __init__(self, lines: Sequence[tuple[Segment, str]]) -> None:
        self._lines = lines

    def __rich_console__(
        self, console: rich_console.Console, _: rich_console.ConsoleOptions
    ) -> rich_console.RenderResult:
        if console.color_system is None:
            yield Segment("".join(f"{prefix.text}{printable_line(line)}\n" for prefix, line in self._lines))
            return
        for prefix, line in self._lines:
            yield prefix
            yield Segment(printable_line(line) + "\n")


class RunConsole:
    """Writes the output of a run to one stream (`tfdist.local.console.Console`)."""

    def __init__(self, stream: TextIO, names: Sequence[str], clock: Callable[[], float]) -> None:
        """Take the replicas' names, which are padded to one width; `clock` returns monotonic seconds."""
        self._terminal = _Terminal(file=stream, highlight=False, markup=False, emoji=False, soft_wrap=True)
        self._clock = clock
        self._width = max(map(len, names), default=0)
        self._colours = dict(zip(names, cycle(_COLOURS), strict=False))
        self._prefixes: dict[str, Segment] = {}
        self._live = Live(console=self._terminal, auto_refresh=False, transient=True, redirect_stdout=False,
                          redirect_stderr=False)  # fmt: skip
        self._plain, self._plain_at = "", float("-inf")

    def message(self, text: str) -> None:
        """Write a message of the run itself."""
        with self._ignoring_closed_terminal():
            self._terminal.print(Text(printable(text)))

    def log(self, name: str, lines: Sequence[str]) -> None:
        """Write log lines of the replica `name`."""
        self.log_lines([(name, line) for line in lines])

    def log_lines(self, lines: Sequence[tuple[str, str]]) -> None:
        """Write log lines of several replicas, each with its name, at once."""
        if lines:
            with self._ignoring_closed_terminal():
                self._terminal.print(_Lines([(self._prefix(name), line) for name, line in lines]), end="")

    def progress(self, phase: str, report: Shown | None) -> None:
        """Show the progress: at once on a terminal, elsewhere if it has changed and 10 s have passed."""
        with self._ignoring_closed_terminal():
            if self._terminal.is_terminal and not self._terminal.is_dumb_terminal:
                self._live.start()
                self._live.update(_display(phase, report, self._terminal.width), refresh=True)
                return
            text = progress.line(phase, report)
            if text != self._plain and self._clock() - self._plain_at >= _PLAIN_SECONDS:
                self._plain, self._plain_at = text, self._clock()
                self._terminal.print(Text(text))

    def close(self) -> None:
        """Remove the progress display."""
        with self._ignoring_closed_terminal():
            self._live.stop()

    def _prefix(self, name: str) -> Segment:
        if name not in self._prefixes:
            colour = self._colours.get(name.partition("/")[0], "")
            self._prefixes[name] = Segment(f"{name:<{self._width}} | ", Style.parse(colour))
        return self._prefixes[name]

    @contextmanager
    def _ignoring_closed_terminal(self) -> Iterator[None]:
        """Ignore EIO, the error of a closed terminal (SIGHUP): the replicas still get their grace period."""
        try:
            yield
        except BrokenPipeError:
            raise
        except OSError as error:
            if error.errno != errno.EIO:
                raise


def _display(phase: str, report: Shown | None, width: int) -> Table:
    """Return the progress as one row: phase, bar, details; the end of the details, the metrics, is cut to `width`."""
    row = Table.grid(padding=(0, _GAP))
    done = percent(report.step, report.total_steps, report.percent) if report else None
    bar: list[rich_console.RenderableType] = []
    used = len(phase) + _GAP
    if done is not None:
        bar = [ProgressBar(total=100, completed=done, width=_BAR_WIDTH), f"{done}%"]
        used += _BAR_WIDTH + _GAP + len(f"{done}%") + _GAP
    details = Text(progress.details(report) if report else "")
    # Rich would make all columns narrower, and the phase and the percentage unreadable.
    details.truncate(max(1, width - used - _GAP), overflow="ellipsis")
    for _ in (phase, *bar, details):
        row.add_column(no_wrap=True)
    row.add_row(Text(phase, "bold"), *bar, details)
    return row
