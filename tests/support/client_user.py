"""A user of a cluster with the role `edit` in one namespace, as the chart extends it, and no other rights."""

import base64
import pathlib
from typing import Final

import yaml

from support.api import Api
from support.controller import RBAC, ROOT

NAME: Final = "data-scientist"
_RENDERED: Final = ROOT / "tests/helm/golden/default.yaml"
"""The chart's manifests; the tests of the chart keep them up to date."""


def kubeconfig(api: Api, namespace: str, folder: pathlib.Path, role: str = "edit") -> pathlib.Path:
    """Return the kubeconfig of a user who has `role` in `namespace`; its context has that namespace."""
    for each in yaml.safe_load_all(_RENDERED.read_text()):
        if any("aggregate-to" in label for label in each["metadata"].get("labels", ())):
            api.apply(each, f"{RBAC}/clusterroles")
    accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    api.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": NAME}}, accounts)
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": NAME},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": namespace}],
    }
    api.apply(binding, f"{RBAC}/namespaces/{namespace}/rolebindings")
    token = api.do("POST", f"{accounts}/{NAME}/token", {"spec": {}})["status"]["token"]
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(_config(api, namespace, token)))
    return path


def _config(api: Api, namespace: str, token: str) -> dict[str, object]:
    authority = base64.b64encode(pathlib.Path(api.authority).read_bytes()).decode()
    cluster = {"server": api.host, "certificate-authority-data": authority}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "team",
        "clusters": [{"name": "team", "cluster": cluster}],
        "users": [{"name": NAME, "user": {"token": token}}],
        "contexts": [{"name": "team", "context": {"cluster": "team", "user": NAME, "namespace": namespace}}],
    }
