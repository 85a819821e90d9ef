"""Creates the job of a command, reports it and the next command, and follows the job on request."""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from tfdist.cli import manifests
from tfdist.cli.commands import attach
from tfdist.cli.connection import to_copy
from tfdist.cli.errors import CommandExitCode
from tfdist.cli.kinds import JOB, Reference
from tfdist.cli.output import collected_warnings, message, show_warnings

if TYPE_CHECKING:
    from tfdist.client.client import Client
    from tfdist.client.submission import Submission


def create(
    submission: "Submission", connected: Callable[[], "Client"], *, dry_run: str | None, follow: bool = False
) -> int:
    """Create a job with what it needs, or nothing, and return the exit code: 0, or with `follow` the job's.

    Args:
        submission: the job.
        connected: returns the client; it is not called for a dry run of the client.
        dry_run: `client` prints the objects, `server` has the API server check them.
        follow: whether to follow the job to its end.
    """
    if dry_run == "client":
        objects = (*submission.config_maps, *submission.code, submission.job)
        manifests.write_yaml(sys.stdout, [(manifest, []) for manifest in objects])
        return CommandExitCode.OK
    client = connected()
    with collected_warnings() as caught:
        handle = client.jobs.create(submission, dry_run=dry_run is not None)
    show_warnings(caught)
    if dry_run is not None:
        print(f"{JOB.resource}/{handle.name} created (server dry run)")
        return CommandExitCode.OK
    print(f"{JOB.resource}/{handle.name} created", flush=True)
    inside = client.in_namespace(handle.namespace)
    if follow:
        return attach.follow(inside, Reference(JOB, handle.name))
    message(f"follow it: {to_copy(inside, 'attach', handle.name)}")
    return CommandExitCode.OK
