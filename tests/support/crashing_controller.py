"""Controllers that are killed before one of their changes to the cluster, each followed at once by one that lives.

`python crashing_controller.py RUNS`, where RUNS is a JSON list of `Run`. All are forked from one process, which has
imported the controller once: an import costs more than the whole life of a job.
"""

import json
import os
import pathlib
import sys
from dataclasses import asdict, dataclass
from typing import Any, Final, NoReturn

from tfdist_operator import app
from tfdist_operator.kube.client import ApiClient

ENDED: Final = "ended with"
"""Begins the line that a run's log gets if a controller has ended that was not to."""
_DIED: Final = 77
_CHANGES: Final = frozenset({"POST", "PUT", "PATCH", "DELETE"})


@dataclass(frozen=True)
class Run:
    """One namespace and its controllers. `die_before` counts changes from 1; 0 is never. `log` gets a line for each."""

    namespace: str
    port: int
    die_before: int
    log: str


def dump(runs: list[Run]) -> str:
    """Return the argument that holds the runs to make."""
    return json.dumps([asdict(run) for run in runs])


def _die_before(number: int, log: pathlib.Path) -> None:
    """Have this process end where it would send its `number`-th change."""
    request: Any = ApiClient.request
    changes = 0

    async def counted(self: ApiClient, method: str, path: str, **rest: Any) -> Any:
        nonlocal changes
        if method in _CHANGES:
            changes += 1
            dies = changes == number
            with log.open("a") as lines:
                lines.write(f"{'dies before ' if dies else ''}{method} {path}\n")
            if dies:
                os._exit(_DIED)
        return await request(self, method, path, **rest)

    ApiClient.request = counted  # type: ignore[method-assign]


def _control(run: Run, die_before: int) -> int:
    """Run one controller in a process of its own and return how it ended."""
    child = os.fork()
    if child == 0:
        os.environ |= {"TFDIST_NAMESPACE": run.namespace, "TFDIST_PORT": str(run.port)}
        _die_before(die_before, pathlib.Path(run.log))
        app.main()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _supervise(run: Run) -> NoReturn:
    code = _control(run, run.die_before)
    if code == _DIED:
        code = _control(run, 0)
    with pathlib.Path(run.log).open("a") as lines:
        lines.write(f"{ENDED} {code}\n")
    os._exit(1)


def main() -> None:
    """Make all runs at the same time, until this process and its group are killed."""
    for fields in json.loads(sys.argv[1]):
        if os.fork() == 0:
            _supervise(Run(**fields))
    while True:
        os.wait()


if __name__ == "__main__":
    main()
