"""Checks of a namespace: whether it exists, its pod security, and its quota."""

from typing import Final
from urllib.parse import quote

from tfdist.client.api_server import ApiServer
from tfdist.client.check import Check, ok, problem, warning
from tfdist.client.errors import NotFound
from tfdist.podspec.quantity import parse_quantity

_ENFORCED: Final = "pod-security.kubernetes.io/enforce"


def check_namespace(api: ApiServer, namespace: str) -> Check:
    """Return whether a namespace accepts pods, and which pod security it enforces.

    Raises:
        ClientError: the request failed.
    """
    try:
        namespace_object = api.request("GET", f"/api/v1/namespaces/{quote(namespace, safe='')}")
    except NotFound:
        return problem("namespace", f"{namespace} does not exist", "choose one by --namespace, or create it")
    if namespace_object["metadata"].get("deletionTimestamp"):
        return problem("namespace", f"{namespace} is being deleted", "choose another one by --namespace")
    level = (namespace_object["metadata"].get("labels") or {}).get(_ENFORCED)
    if level == "restricted":
        return ok(
            "namespace",
            f"{namespace} enforces the pod security standard restricted: the bundled trainer complies; an image of "
            "your own needs a securityContext",
        )
    return ok("namespace", f"{namespace}{f' enforces the pod security standard {level}' if level else ''}")


def check_quota(api: ApiServer, namespace: str) -> Check:
    """Return whether a quota of a namespace is used up.

    Raises:
        ClientError: the request failed.
    """
    quotas = list(api.items(f"/api/v1/namespaces/{quote(namespace, safe='')}/resourcequotas"))
    usages: list[str] = []
    exhausted: list[str] = []
    for quota in quotas:
        status = quota.get("status") or {}
        for name, hard in (status.get("hard") or {}).items():
            usage = (status.get("used") or {}).get(name, "0")
            text = f"{name} {usage} of {hard}"
            (exhausted if parse_quantity(usage) >= parse_quantity(hard) else usages).append(text)
    if exhausted:
        return warning(
            "quota", f"used up: {', '.join(exhausted)}", "new pods that need it wait: free it, or ask for more"
        )
    if not quotas:
        return ok("quota", "none")
    return ok("quota", f"used: {', '.join(usages)}")
