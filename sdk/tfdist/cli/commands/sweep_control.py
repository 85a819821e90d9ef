"""`tfdist sweep suspend|resume|delete SWEEP...`: changes sweeps."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from tfdist.cli.errors import CommandError
from tfdist.cli.find import SWEEP_RESOURCE, suggesting, without_kind
from tfdist.cli.output import collected_warnings, message, show_warnings
from tfdist.client.client import Client
from tfdist.client.errors import ClientError, NoCluster, Unauthorized
from tfdist.client.sweeps import Sweeps

_ACTIONS: Final[dict[str, tuple[Callable[[Sweeps, str], Any], str]]] = {
    "suspend": (Sweeps.suspend, "suspended"),
    "resume": (Sweeps.resume, "resumed"),
    "delete": (Sweeps.delete, "deleted"),
}


def execute(client: Client, names: Sequence[str], action: str) -> int:
    """Change sweeps and return the exit code: 2 if a request failed; the others are still changed.

    Raises:
        NoCluster, Unauthorized: every further request would fail, too.
    """
    request, done = _ACTIONS[action]
    code = 0
    for name in dict.fromkeys(map(without_kind, names)):
        try:
            with suggesting(client.sweeps, name), collected_warnings() as caught:
                request(client.sweeps, name)
            print(f"{SWEEP_RESOURCE}/{name} {done}", flush=True)
            show_warnings(caught)
        except (NoCluster, Unauthorized):
            raise
        except (CommandError, ClientError) as error:
            message(error)
            code = 2
    return code
