"""Completion in a shell: names of jobs and sweeps, replicas, namespaces and contexts, and phases.

A shell waits for the answer with each press of Tab, and prints what goes wrong into the line that is being typed. So a
cluster has one second to answer, and an error gives no completions.
"""

import contextlib
import logging
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

import typer

from tfdist.cli.connection import ClusterOptions
from tfdist.cli.errors import CommandError
from tfdist.cli.kinds import JOB, SWEEP, Kind, Reference

if TYPE_CHECKING:
    from tfdist.client.client import Client

_SECONDS: Final = 1.0
_LIMIT: Final = 500
"""Names of one answer."""


def names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the jobs of the namespace, after `sweep/` its sweeps, without those already on the command line."""
    kind: Kind = ctx.obj or JOB
    prefix, slash, _ = incomplete.rpartition("/")
    with contextlib.suppress(CommandError):  # an unknown kind
        kind = Reference.parse(incomplete, kind).kind
        excluded = [Reference.parse(name, kind).name for name in ctx.params.get("names") or ()]
        found = set(_of_cluster(ctx, lambda client: _names(client, kind))) - set(excluded)
        return _matching([f"{prefix}{slash}{name}" for name in found], incomplete)
    return []


def job_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the jobs of the namespace."""
    return _matching(_of_cluster(ctx, lambda client: _names(client, JOB)), incomplete)


def sweep_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the sweeps of the namespace."""
    return _matching(_of_cluster(ctx, lambda client: _names(client, SWEEP)), incomplete)


def evaluated(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the jobs of the namespace, or after `--ensemble` its sweeps."""
    return (sweep_names if ctx.params.get("ensemble") else job_names)(ctx, incomplete)


def replicas(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the replicas of the job on the command line that have pods, such as `worker-0`."""
    name = str(ctx.params.get("name") or "")
    return _matching(_of_cluster(ctx, lambda client: _replicas(client, name)), incomplete) if name else []


def namespaces(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the namespaces of the cluster and of the contexts; some users may not list the namespaces of a cluster."""
    return _matching([*_contexts(ctx).values(), *_of_cluster(ctx, _namespaces)], incomplete)


def contexts(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the contexts of the kubeconfig."""
    return _matching(_contexts(ctx), incomplete)


def phases(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the phases of a job, or in `tfdist sweep` of a sweep, after the typed letters, whatever their case."""
    kind: Kind = ctx.obj or JOB
    matches = [phase for phase in kind.phases if phase.lower().startswith(incomplete.lower())]
    if incomplete.islower():
        return [phase.lower() for phase in matches]
    return [incomplete + phase[len(incomplete) :] for phase in matches]


def _matching(words: Iterable[str], incomplete: str) -> list[str]:
    return sorted({word for word in words if word.startswith(incomplete)})


def _of_cluster(ctx: typer.Context, read: Callable[["Client"], list[str]]) -> list[str]:
    """Return what `read` returns within a second for the client of the options typed so far; else nothing."""
    logging.disable()  # the client reports a login that fails
    namespace, context, kubeconfig = map(ctx.params.get, ("namespace", "context", "kubeconfig"))
    connection = ClusterOptions(namespace, context, kubeconfig)
    found: list[str] = []

    def ask() -> None:
        with contextlib.suppress(Exception):
            found.extend(read(connection.client()))

    with contextlib.suppress(ModuleNotFoundError):
        import tfdist.client.client  # noqa: F401, PLC0415  its import, half a second, is not the time of the cluster
    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(_SECONDS)
    return list(found)


def _contexts(ctx: typer.Context) -> dict[str, str]:
    """Return the namespace of each context of the kubeconfig."""
    with contextlib.suppress(Exception):
        from tfdist.client.kubeconfig import namespaces_of_contexts  # noqa: PLC0415  as above

        return namespaces_of_contexts(ctx.params.get("kubeconfig"))
    return {}


def _names(client: "Client", kind: Kind) -> list[str]:
    from tfdist.client.api_server import jobs_path, sweeps_path  # noqa: PLC0415  as above

    return _listed(client, (jobs_path if kind is JOB else sweeps_path)(client.namespace))


def _namespaces(client: "Client") -> list[str]:
    return _listed(client, "/api/v1/namespaces")


def _listed(client: "Client", path: str) -> list[str]:
    items: list[dict[str, Any]] = client.api.request("GET", path, query={"limit": _LIMIT})["items"]
    return [str(item["metadata"]["name"]) for item in items]


def _replicas(client: "Client", name: str) -> list[str]:
    from tfdist.client.replica_pods import pods_of  # noqa: PLC0415  as above
    from tfdist.render.names import INDEX_LABEL, ROLE_LABEL  # noqa: PLC0415  as above

    pods = pods_of(client.api, client.namespace, Reference.parse(name).name)
    labels = [pod["metadata"]["labels"] for pod in pods]
    return [f"{item[ROLE_LABEL]}-{item[INDEX_LABEL]}" for item in labels if ROLE_LABEL in item and INDEX_LABEL in item]
