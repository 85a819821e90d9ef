"""Creates the job of a command, reports it and the next command, and follows the job on request."""

import importlib
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tfdist.cli import manifests
from tfdist.cli.find import RESOURCE, command
from tfdist.cli.output import collected_warnings, message, show_warnings

if TYPE_CHECKING:
    from tfdist.client.client import Client
    from tfdist.client.submission import Submission


def create(
    submission: "Submission", connected: Callable[[], "Client"], *, dry_run: str | None, follow: bool = False
) -> int:
    """Create a job with what it needs, or nothing, and return the exit code: 0, or with `follow` that of the job.

    Args:
        submission: the job.
        connected: returns the client; it is not called for a dry run of the client.
        dry_run: `client` prints the objects, `server` has the API server check them.
        follow: whether to follow the job to its end.
    """
    if dry_run == "client":
        code = [submission.code] if submission.code else []
        manifests.write_yaml(
            sys.stdout, [(manifest, []) for manifest in (*submission.config_maps, *code, submission.job)]
        )
        return 0
    client = connected()
    with collected_warnings() as caught:
        handle = client.create(submission, dry_run=dry_run is not None)
    show_warnings(caught)
    if dry_run is not None:
        print(f"{RESOURCE}/{handle.name} created (server dry run)")
        return 0
    print(f"{RESOURCE}/{handle.name} created", flush=True)
    inside = client.in_namespace(handle.namespace)
    if follow:
        # imported by name: a command is imported only when it runs
        attach: Any = importlib.import_module("tfdist.cli.commands.attach")
        status: int = attach.execute(inside, handle.name)
        return status
    message(f"follow it: {command(inside, 'attach', handle.name)}")
    return 0
