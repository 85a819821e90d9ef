"""`tfdist describe JOB`: all about a job, for people: what it does, why, and what to do about its last failure."""

import sys
from datetime import UTC, datetime

from tfdist.cli.description import description
from tfdist.cli.find import attach
from tfdist.cli.output import has_colour, width_of, write_lines
from tfdist.client.client import Client
from tfdist.client.errors import ClientError
from tfdist.client.events import Event


def execute(client: Client, name: str) -> int:
    """Print the description of a job and return the exit code."""
    handle = attach(client, name)
    events: list[Event] | str
    try:
        events = handle.events()
    except ClientError as error:  # the rest is still of use
        events = f"not available: {error}"
    lines = description(
        handle.job, events, datetime.now(UTC), width=width_of(sys.stdout), colour=has_colour(sys.stdout)
    )
    write_lines(lines)
    return 0
