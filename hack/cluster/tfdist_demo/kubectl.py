"""kubectl, bound to one cluster: every request is a command that a user could run."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from tfdist_cluster import shell
from tfdist_cluster.errors import ClusterError, CommandError
from tfdist_demo.place import DEMO, Place

TIMEOUT_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Kubectl:
    """The program, the kubeconfig it uses, and what the installation in that cluster is called."""

    program: Path
    kubeconfig: str
    place: Place = DEMO

    def run(
        self, *arguments: str, stdin: str | IO[bytes] | None = None, timeout_seconds: float = TIMEOUT_SECONDS
    ) -> str:
        """Run one command and return what it prints.

        Raises:
            ClusterError: it failed; the message contains its output.
        """
        environment = {"KUBECONFIG": self.kubeconfig}
        return shell.run([self.program, *arguments], env=environment, stdin=stdin, timeout_seconds=timeout_seconds)

    def apply(self, *objects: Mapping[str, object] | str) -> None:
        """Apply objects, or YAML texts, on the server; fields of other managers are overwritten."""
        for item in objects:
            manifest = item if isinstance(item, str) else json.dumps(item)
            self.run(
                "apply", "--server-side", "--force-conflicts", "--field-manager=tfdist-demo", "-f", "-", stdin=manifest
            )

    def get(self, *arguments: str) -> dict[str, Any] | None:
        """Return an object or a list, or None if there is no such object."""
        try:
            output = self.run("get", *arguments, "--output=json", "--ignore-not-found")
        except CommandError as error:
            if "the server doesn't have a resource type" in error.output:
                return None
            raise
        return dict(json.loads(output)) if output.strip() else None

    def pods(self, namespace: str, selector: str) -> list[dict[str, Any]]:
        """Return the pods that a label selector selects."""
        pod_list = self.get("pods", f"--namespace={namespace}", f"--selector={selector}")
        return list(pod_list["items"]) if pod_list else []

    def logs(self, namespace: str, pod: str, lines: int = 15) -> str:
        """Return the end of a pod's log, or of its previous container's if the current log is empty."""
        for previous in ("--previous=false", "--previous=true"):
            try:
                output = self.run("logs", f"--namespace={namespace}", pod, f"--tail={lines}", previous)
            except ClusterError:
                continue
            if output.strip():
                return output.rstrip()
        return ""
