"""The command `tfdist` with the rights of a user with the role `edit`, and pods that start and end as on a cluster."""

import contextlib
import pathlib
import threading
from collections.abc import Iterator
from typing import Any

from support import client_user, kubelet
from support.api import PODS, Api, Json
from support.factories import manifest
from tfdist import Client
from tfdist.cli.main import main


class CommandUser:
    """Runs the command and the client with the rights of a role in one namespace."""

    def __init__(self, api: Api, namespace: str, folder: pathlib.Path, role: str = "edit") -> None:
        self.kubeconfig = client_user.kubeconfig(api, namespace, folder, role)
        self.client = Client(kubeconfig=self.kubeconfig)

    def run(self, *arguments: str) -> int:
        """Run the command and return its exit code."""
        return main([*arguments, "--kubeconfig", str(self.kubeconfig)])

    def submit(self, name: str = "fashion", labels: Json | None = None, **spec: Any) -> None:
        """Create a job."""
        document = manifest(name, **spec)
        del document["metadata"]["uid"], document["metadata"]["namespace"]
        document["metadata"]["labels"] = labels or {}
        self.client.submit(document)


def start_pods(api: Api, namespace: str) -> None:
    """Report, as a kubelet would, that each pod of the namespace that still waits runs."""
    for pod in api.pods(namespace):
        if pod["status"]["phase"] == "Pending" and not pod["metadata"].get("deletionTimestamp"):
            kubelet.play(api, f"{PODS.format(ns=namespace)}/{pod['metadata']['name']}", "R")


@contextlib.contextmanager
def running_pods(api: Api, namespace: str) -> Iterator[None]:
    """Start each new pod of a namespace, and remove those that are being deleted, until the block ends."""
    stopped = threading.Event()

    def play() -> None:
        while not stopped.wait(0.2):
            with contextlib.suppress(AssertionError):  # the controller deleted a pod in between
                start_pods(api, namespace)
            for pod in api.pods(namespace):
                if pod["metadata"].get("deletionTimestamp"):
                    path = f"{PODS.format(ns=namespace)}/{pod['metadata']['name']}"
                    api.send("DELETE", path, {"gracePeriodSeconds": 0})

    thread = threading.Thread(target=play, daemon=True)
    thread.start()
    yield
    stopped.set()
    thread.join()
