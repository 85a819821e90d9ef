"""Which cluster and namespace the client uses: the same as kubectl, or its pod's if it runs in one."""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml
from kubernetes import config
from kubernetes.client import Configuration
from kubernetes.config.config_exception import ConfigException

from tfdist.client.errors import NoCluster

# The package has no types.
_read_contexts: Any = config.list_kube_config_contexts
_load: Any = config.load_kube_config
_load_of_pod: Any = config.load_incluster_config

_DEFAULT_FILE: Final = "~/.kube/config"
_POD_NAMESPACE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


@dataclass(frozen=True, slots=True)
class Connection:
    """An API server, the user's credentials, and the namespace of the context."""

    configuration: Configuration
    namespace: str
    source: str
    """Where they come from, such as `context "kind-tfdist"`."""

    def __str__(self) -> str:
        return f"{self.configuration.host} ({self.source})"


def connection(kubeconfig: str | os.PathLike[str] | None = None, context: str | None = None) -> Connection:
    """Return the connection of a context, by default of the current context.

    Args:
        kubeconfig: path of a file; default: the files that `KUBECONFIG` names, then `~/.kube/config`. If no file exists
            and this runs in a pod, the cluster and the service account of the pod are used.
        context: name of a context.

    Raises:
        NoCluster: no configuration exists, or it does not have the context.
    """
    files = _files(kubeconfig)
    if any(Path(file).expanduser().is_file() for file in files.split(os.pathsep) if file):
        return _of_context(files, context)
    if kubeconfig or context or "KUBERNETES_SERVICE_HOST" not in os.environ:
        raise NoCluster(
            f"there is no kubeconfig at {files}: set --kubeconfig or KUBECONFIG to the file of your cluster"
        )
    return _of_pod()


def namespaces_of_contexts(kubeconfig: str | os.PathLike[str] | None = None) -> dict[str, str]:
    """Return the namespace of each context of a kubeconfig, by the name of the context.

    Raises:
        NoCluster: it cannot be read.
    """
    contexts, _ = _contexts(_files(kubeconfig))
    return {str(item["name"]): _namespace(item) for item in contexts}


def _files(kubeconfig: str | os.PathLike[str] | None) -> str:
    return os.fspath(kubeconfig) if kubeconfig else os.environ.get("KUBECONFIG") or _DEFAULT_FILE


def _contexts(files: str) -> tuple[list[Any], Any]:
    with _usable(files):
        contexts, current = _read_contexts(files)
        return contexts, current


@contextlib.contextmanager
def _usable(files: str) -> Iterator[None]:
    try:
        yield
    except (ConfigException, yaml.YAMLError, OSError, TypeError, KeyError) as error:
        raise NoCluster(f"the kubeconfig {files} cannot be used: {' '.join(str(error).split())}") from None


def _namespace(context: Any) -> str:
    return str(context["context"].get("namespace") or "default")


def _of_context(files: str, name: str | None) -> Connection:
    with _usable(files):
        context = _context(*_contexts(files), name, files)
        configuration = Configuration()
        _load(files, context["name"], configuration, persist_config=False)
        return Connection(configuration, _namespace(context), f'context "{context["name"]}"')


def _context(contexts: list[Any], current: Any, name: str | None, files: str) -> Any:
    if name is None:
        return current
    for item in contexts:
        if item["name"] == name:
            return item
    names = ", ".join(sorted(item["name"] for item in contexts))
    raise NoCluster(f'there is no context "{name}" in {files}; it has {names}')


def _of_pod() -> Connection:
    configuration = Configuration()
    try:
        _load_of_pod(configuration)
        namespace = _POD_NAMESPACE.read_text(encoding="utf-8").strip()
    except (ConfigException, OSError) as error:
        raise NoCluster(f"the service account of this pod cannot be used: {error}") from None
    return Connection(configuration, namespace, "the service account of this pod")
