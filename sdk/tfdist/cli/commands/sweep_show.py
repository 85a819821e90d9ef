"""`tfdist sweep list|get|describe`: sweeps as rows of a table, as they are stored, and all about one of them."""

import sys
from datetime import UTC, datetime

from tfdist.api.sweep_resource import SWEEP_API_VERSION, SWEEP_KIND
from tfdist.cli.find import attach_sweep
from tfdist.cli.job_table import document_of, write_document
from tfdist.cli.output import message, width_of, write_lines
from tfdist.cli.sweep_description import sweep_description
from tfdist.cli.sweep_table import write_sweeps
from tfdist.client.client import Client


def list_sweeps(client: Client, *, all_namespaces: bool, selector: str | None, output: str | None) -> int:
    """Print the sweeps and return the exit code."""
    sweeps = client.sweeps.list(all_namespaces=all_namespaces, selector=selector)
    if output in {"json", "yaml"}:
        items = [document_of(sweep, SWEEP_API_VERSION, SWEEP_KIND) for sweep in sweeps]
        write_document(sys.stdout, {"apiVersion": "v1", "kind": "List", "items": items}, output)
        return 0
    if not sweeps:
        message("No sweeps found" if all_namespaces else f"No sweeps found in {client.namespace} namespace.")
        return 0
    write_sweeps(sys.stdout, sweeps, output, datetime.now(UTC), namespaces=all_namespaces)
    return 0


def get(client: Client, name: str, *, output: str | None) -> int:
    """Print a sweep and return the exit code."""
    sweep = attach_sweep(client, name).sweep
    if output in {"json", "yaml"}:
        write_document(sys.stdout, document_of(sweep, SWEEP_API_VERSION, SWEEP_KIND), output)
    else:
        write_sweeps(sys.stdout, [sweep], output, datetime.now(UTC))
    return 0


def describe(client: Client, name: str) -> int:
    """Print the description of a sweep and return the exit code."""
    sweep = attach_sweep(client, name).sweep
    lines = sweep_description(sweep, datetime.now(UTC), width=width_of(sys.stdout))
    write_lines(lines)
    return 0
