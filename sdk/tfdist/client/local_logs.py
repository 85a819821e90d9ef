"""The logs of a run on this machine."""

from typing import Final

from tfdist.client.container_log import LogLine, LogOptions
from tfdist.client.errors import NotPossible
from tfdist.client.local_run import LocalRun
from tfdist.local.logs import Tail

_PREVIOUS: Final = ".previous"


class LocalLogs:
    """Reads the logs of a run, each line once."""

    def __init__(self, run: LocalRun, options: LogOptions) -> None:
        """Read the lines of a run that the options select.

        Raises:
            NotPossible: the options select an attempt or a time, which the files do not have.
        """
        if options.attempt is not None or options.since is not None:
            raise NotPossible(f"logs of this machine have neither attempts nor times: read {run.path / 'logs'}")
        self._run, self._options = run, options
        self._tails: dict[str, Tail] = {}

    def lines(self, *, last: bool) -> list[LogLine]:
        """Return the lines since the last call; with `last` also those without a line feed."""
        result: list[LogLine] = []
        for path in sorted((self._run.path / "logs").glob("*.log")):
            if path.stem.endswith(_PREVIOUS) or not self._options.selects(path.stem):
                continue
            is_new = path.stem not in self._tails
            texts = list(self._tails.setdefault(path.stem, Tail(path)).lines(last=last))
            if is_new and self._options.tail is not None:
                texts = texts[-self._options.tail :]
            result += [LogLine(path.stem, 0, f"{self._run.name}-{path.stem}", "", text) for text in texts]
        return result
