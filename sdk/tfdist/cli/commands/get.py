"""`tfdist get JOB`: one job, as a row of `tfdist list` or as the API server stores it."""

import sys
from datetime import UTC, datetime

from tfdist.cli.find import attach
from tfdist.cli.job_table import document_of, write_document, write_jobs
from tfdist.client.client import Client


def execute(client: Client, name: str, *, output: str | None) -> int:
    """Print a job and return the exit code."""
    job = attach(client, name).job
    if output in {"json", "yaml"}:
        write_document(sys.stdout, document_of(job), output)
    else:
        write_jobs(sys.stdout, [job], output, datetime.now(UTC))
    return 0
