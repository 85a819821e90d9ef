"""The rights of the user in a namespace, by the commands that need them."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from tfdist.api.resource import GROUP, PLURAL
from tfdist.client.api_server import ApiServer
from tfdist.client.check import Check, Result, ok

SUBJECT: Final = "rights"

_PATH: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_UPGRADE_NEEDS_CREATE: Final = 35
"""Minor version of Kubernetes since which a WebSocket to a pod also needs the verb `create`."""


class Right(NamedTuple):
    """A verb on a resource of a namespace."""

    verb: str
    resource: str
    group: str = ""

    def __str__(self) -> str:
        """Return it as in a message of the API server."""
        return f"{self.verb} {self.resource}"


def _jobs(*verbs: str) -> tuple[Right, ...]:
    return tuple(Right(verb, PLURAL, GROUP) for verb in verbs)


def _core(resource: str, *verbs: str) -> tuple[Right, ...]:
    return tuple(Right(verb, resource) for verb in verbs)


def _connection(resource: str) -> tuple[Right, ...]:
    return (*_core("pods", "list"), *_core(resource, "get", "create"))


NEEDED: Final[dict[str, tuple[Right, ...]]] = {
    "submit, run": (*_jobs("create", "get"), *_core("configmaps", "create", "get", "patch", "delete")),
    "list, get, wait": _jobs("get", "list", "watch"),
    "describe, events": (*_jobs("get"), *_core("events", "list", "watch")),
    "logs, attach": (*_jobs("get", "watch"), *_core("pods", "list"), *_core("pods/log", "get")),
    "suspend, resume, restart, scale": _jobs("get", "patch"),
    "delete": _jobs("get", "delete"),
    "port-forward, tensorboard, stacks": (
        *_jobs("get"),
        *_core("pods", "list"),
        *_core("pods/portforward", "get", "create"),
    ),
    "shell": (*_jobs("get"), *_core("pods", "list"), *_core("pods/exec", "get", "create")),
}
"""Rights by the commands that need them."""


def check_rights(api: ApiServer, namespace: str, minor: int) -> Iterator[Check]:
    """Yield one check for each group of commands that the user may not use, or one for all.

    Args:
        api: the API server.
        namespace: where the jobs are.
        minor: minor version of Kubernetes.

    Raises:
        ClientError: a request failed.
    """
    results: dict[Right, bool] = {}
    denied: dict[str, list[Right]] = {}
    for commands, rights in NEEDED.items():
        for right in rights:
            if right.verb == "create" and right.resource.startswith("pods/") and minor < _UPGRADE_NEEDS_CREATE:
                continue
            if right not in results:
                results[right] = is_allowed(api, namespace, right)
            if not results[right]:
                denied.setdefault(commands, []).append(right)
    if not denied:
        yield ok(SUBJECT, f"every command is allowed in namespace {namespace}")
    for commands, rights_ in denied.items():
        missing = ", ".join(map(str, rights_))
        result = Result.PROBLEM if commands.startswith("submit") else Result.WARNING
        remedy = f"ask an administrator for the role edit in namespace {namespace}"
        yield Check(SUBJECT, result, f"{commands}: you may not {missing}", remedy)


def is_allowed(api: ApiServer, namespace: str, right: Right) -> bool:
    """Return whether the user has a right.

    Raises:
        ClientError: the request failed.
    """
    resource, _, subresource = right.resource.partition("/")
    attributes = {"namespace": namespace, "verb": right.verb, "group": right.group, "resource": resource}
    attributes |= {"subresource": subresource} if subresource else {}
    kind = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview"}
    answer = api.request("POST", _PATH, kind | {"spec": {"resourceAttributes": attributes}})
    return bool(answer["status"].get("allowed"))
