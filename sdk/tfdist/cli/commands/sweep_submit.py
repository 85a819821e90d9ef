"""`tfdist sweep submit|run FILE`: creates the sweep of a manifest, with the ConfigMaps of its file."""

import importlib
import sys
from collections.abc import Callable
from typing import Any

from tfdist.api.sweep_resource import SWEEP_KIND
from tfdist.cli import jobs, manifests
from tfdist.cli.config_maps import config_map_manifests
from tfdist.cli.document_kind import DocumentKind
from tfdist.cli.documents import Document
from tfdist.cli.errors import CommandError
from tfdist.cli.exit_code import ExitCode
from tfdist.cli.find import SWEEP_RESOURCE, command
from tfdist.cli.findings import findings
from tfdist.cli.output import message
from tfdist.client.client import Client
from tfdist.client.submission import prepare


def execute(
    file: str,
    namespace: str | None,
    connected: Callable[[], Client],
    *,
    dry_run: str | None = None,
    follow: bool = False,
) -> int:
    """Create a sweep and return the exit code: 0, or 1 if it is invalid; with `follow` that of the sweep.

    Args:
        file: file or folder with one sweep and its ConfigMaps.
        namespace: that of the command line.
        connected: returns the client; it is called only for a sweep that is valid.
        dry_run: `client` prints the objects, `server` has the API server check them.
        follow: whether to follow the sweep to its end.

    Raises:
        CommandError: a file cannot be read, it has several sweeps, or another namespace than that of the command line.
        ClientError: a request failed.
    """
    inputs = jobs.read(file)
    document = _sweep(inputs, file)
    if document is None:
        return ExitCode.NEGATIVE
    own_namespace = document.value["metadata"].get("namespace")
    if namespace and own_namespace and own_namespace != namespace:
        raise CommandError(
            f"--namespace {namespace}: the manifest has the namespace {own_namespace}; change one of them"
        )
    config_maps = config_map_manifests(inputs, own_namespace or namespace or "")
    if dry_run == "client":
        submission = prepare(document.value, namespace or "", None, config_maps)
        manifests.write_yaml(sys.stdout, [(manifest, []) for manifest in (*submission.config_maps, submission.job)])
        return 0
    client = connected()
    handle = client.sweeps.submit(document.value, config_maps=config_maps, dry_run=dry_run is not None)
    print(f"{SWEEP_RESOURCE}/{handle.name} created{' (server dry run)' if dry_run else ''}", flush=True)
    inside = client.in_namespace(handle.namespace)
    if follow:
        # imported by name: a command is imported only when it runs
        attach: Any = importlib.import_module("tfdist.cli.commands.sweep_attach")
        status: int = attach.execute(inside, handle.name)
        return status
    if not dry_run:
        message(f"follow it: {command(inside, 'sweep', 'attach', handle.name)}")
    return 0


def _sweep(inputs: list[Document], file: str) -> Document | None:
    """Return the sweep of a file; None if there is none or it is invalid, after messages about it."""
    jobs.report_not_created(inputs, SWEEP_KIND)
    sweeps = jobs.unchecked(inputs, file, "create", DocumentKind.SWEEP)
    if not sweeps:
        return None
    document = jobs.only(sweeps, file, "create", "sweep")
    problems = list(findings(document))
    for problem in problems:
        problem.print(sys.stderr)
    return document if all(problem.severity == "warning" for problem in problems) else None
