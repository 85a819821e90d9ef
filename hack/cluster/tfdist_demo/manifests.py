"""The objects of the demonstration other than the job: namespace, volume, the pod that fills it; pure."""

from collections.abc import Mapping
from typing import Final

from tfdist_demo.place import DEMO

NAMESPACE: Final = DEMO.namespace
CLAIM: Final = "fashion-mnist"
EXAMPLES_CLAIM: Final = "examples"
LOADER: Final = "loader"
DATA_ANNOTATION: Final = "tfdist.dev/demo-data"
"""On a claim: the hash of the data that its volume holds completely."""
TMP: Final = "/tmp"  # noqa: S108  in the pod
USER: Final = 65532
"""The images' user, so that what the loader writes belongs to the job's pods."""


def restricted_namespace(name: str) -> Mapping[str, object]:
    """Return a namespace that admits restricted pods only."""
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def claim(name: str, namespace: str, *, storage_class: str | None, access_mode: str) -> Mapping[str, object]:
    """Return the claim of a volume for data and checkpoints; without a class the cluster's default is used."""
    spec: dict[str, object] = {"accessModes": [access_mode], "resources": {"requests": {"storage": "1Gi"}}}
    if storage_class:
        spec["storageClassName"] = storage_class
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}


def loader(trainer_image: str, namespace: str, claim: str = CLAIM) -> Mapping[str, object]:
    """Return a pod of the trainer's image that mounts the whole volume of `claim` and waits for what is run in it."""
    container = {
        "name": "loader",
        "image": trainer_image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sleep", "1800"],
        "env": [{"name": "CUDA_VISIBLE_DEVICES", "value": ""}, {"name": "TF_CPP_MIN_LOG_LEVEL", "value": "2"}],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": "volume", "mountPath": "/volume"}, {"name": "tmp", "mountPath": TMP}],
    }
    spec = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "fsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
        "volumes": [
            {"name": "volume", "persistentVolumeClaim": {"claimName": claim}},
            {"name": "tmp", "emptyDir": {}},
        ],
    }
    metadata = {"name": LOADER, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
