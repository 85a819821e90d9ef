"""Paths of the API of jobs, sweeps and pods."""

from urllib.parse import quote

from tfdist.api.resource import API_VERSION, PLURAL
from tfdist.api.sweep_resource import SWEEP_API_VERSION, SWEEP_PLURAL


def jobs_path(namespace: str | None) -> str:
    """Return the path of the jobs of a namespace, or with None of all."""
    return _path(API_VERSION, PLURAL, namespace)


def sweeps_path(namespace: str | None) -> str:
    """Return the path of the sweeps of a namespace, or with None of all."""
    return _path(SWEEP_API_VERSION, SWEEP_PLURAL, namespace)


def pods_path(namespace: str) -> str:
    """Return the path of the pods of a namespace."""
    return f"/api/v1/namespaces/{quote(namespace, safe='')}/pods"


def object_path(collection: str, name: str) -> str:
    """Return the path of an object of a collection."""
    return f"{collection}/{quote(name, safe='')}"


def _path(api_version: str, plural: str, namespace: str | None) -> str:
    inside = f"/namespaces/{quote(namespace, safe='')}" if namespace else ""
    return f"/apis/{api_version}{inside}/{plural}"
