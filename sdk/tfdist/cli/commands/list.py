"""`tfdist list`: the jobs of a namespace, or of all."""

import sys
from datetime import UTC, datetime

from tfdist.cli.job_table import document_of, write_document, write_jobs
from tfdist.cli.output import message
from tfdist.client.client import Client


def execute(client: Client, *, all_namespaces: bool, selector: str | None, output: str | None) -> int:
    """Print the jobs and return the exit code."""
    jobs = client.list(all_namespaces=all_namespaces, selector=selector)
    if output in {"json", "yaml"}:
        items = [document_of(job) for job in jobs]
        write_document(sys.stdout, {"apiVersion": "v1", "kind": "List", "items": items}, output)
        return 0
    if not jobs:
        message("No jobs found" if all_namespaces else f"No jobs found in {client.namespace} namespace.")
        return 0
    write_jobs(sys.stdout, jobs, output, datetime.now(UTC), namespaces=all_namespaces)
    return 0
