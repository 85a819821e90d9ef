"""The chart as people use it: rendered by helm, with values as they would write them."""

import pathlib
from dataclasses import dataclass
from typing import Any

import yaml

from support.api import Json
from tfdist_cluster.versions import KUBERNETES
from tfdist_demo.helm import CHART, Helm

NAMESPACE = "tfdist-system"
MONITORING = "monitoring.coreos.com/v1"

NAMESPACED: Json = {"namespaces": ["team-a", "team-b"], "crds": {"install": False}}
EVERYTHING: Json = {
    "image": {"repository": "images.example.com:5000/tfdist/controller", "digest": f"sha256:{'0' * 64}"},
    "trainerImage": {"repository": "images.example.com:5000/tfdist/trainer", "tag": "7"},
    "imagePullSecrets": [{"name": "registry"}],
    "fullnameOverride": "training",
    "serviceAccount": {"name": "trainer", "annotations": {"example.com/role": "training"}},
    "settings": {"workers": 32, "logLevel": "DEBUG", "resyncSeconds": 300, "clusterDomain": "example.org"},
    "podDefaults": {"spec": {"nodeSelector": {"pool": "gpu"}, "tolerations": [{"operator": "Exists"}]}},
    "replicas": 3,
    "priorityClassName": "system-cluster-critical",
    "nodeSelector": {"kubernetes.io/os": "linux"},
    "tolerations": [{"key": "control", "operator": "Exists"}],
    "affinity": {"nodeAffinity": {}},
    "podLabels": {"team": "platform"},
    "podAnnotations": {"example.com/scrape": "true"},
    "webhook": {"enabled": True},
    "admissionPolicies": {"enabled": True, "serviceAccounts": ["default", "trainer"], "openPorts": False},
    "networkPolicy": {"metricsFrom": [{"podSelector": {"matchLabels": {"app": "prometheus"}}}]},
    "metrics": {
        "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
        "prometheusRule": {"enabled": True, "labels": {"release": "prometheus"}},
        "dashboards": {"enabled": True},
    },
}
BARE: Json = {
    "replicas": 1,
    "rbac": {"create": False, "userRoles": False},
    "serviceAccount": {"create": False},
    "podDisruptionBudget": {"enabled": False},
    "networkPolicy": {"enabled": False},
    "crds": {"keep": False},
}
VALUES: dict[str, Json] = {"default": {}, "namespaced": NAMESPACED, "everything": EVERYTHING, "bare": BARE}
"""The installations that the tests render, by name."""


@dataclass(frozen=True, slots=True)
class Chart:
    """The chart, a helm to render it, and a folder for files of values."""

    helm: Helm
    folder: pathlib.Path

    def text(self, values: Json) -> str:
        """Return what helm would send to the API server."""
        file = self.folder / "values.yaml"
        file.write_text(yaml.safe_dump(values))
        version = f"--kube-version={KUBERNETES}"
        return self.helm.run("template", "tfdist", str(CHART), f"--namespace={NAMESPACE}", version, f"--values={file}")

    def render(self, **values: Any) -> list[Json]:
        """Return the objects."""
        return [document for document in yaml.safe_load_all(self.text(values)) if document]

    def one(self, kind: str, name: str = "", **values: Any) -> Json:
        """Return the one object of a kind, and of that name if one is given."""
        (document,) = [o for o in self.render(**values) if o["kind"] == kind and name in {"", o["metadata"]["name"]}]
        return document
