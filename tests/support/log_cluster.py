"""A job whose pods, logs and status a test plays, and the commands of its user."""

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator

import yaml

from support import client_user
from support.api import JOBS, PODS, Api, Json
from support.controller import ROOT
from support.factories import manifest
from support.kubelet import SILENT, play, silent_node
from support.log_kubelet import LogKubelet, log_kubelet
from support.polling import WAIT_SECONDS, wait_for

JOB = "fashion"


def at(second: int) -> str:
    """Return a time of a log."""
    return f"2030-01-01T00:00:{second:02}.000000000Z"


def failure_of(pod: str, code: int) -> Json:
    """Return the entry of a worker in `status.failures`."""
    return {
        "time": "2030-01-01T00:00:00Z",
        "attempt": 0,
        "role": "worker",
        "index": 0,
        "pod": pod,
        "exitCode": code,
        "reason": "UserError",
        "message": "no data",
        "counted": True,
        "rootCause": True,
    }


class Cluster:
    """A job whose pods and status the test plays, and the commands of its user."""

    def __init__(self, api: Api, namespace: str, node: str, kubelet: LogKubelet, folder: pathlib.Path) -> None:
        self._api, self._namespace, self._node, self.kubelet = api, namespace, node, kubelet
        self.kubeconfig = client_user.kubeconfig(api, namespace, folder)
        self._folder = folder
        self._uid = ""

    def submit(self, workers: int = 2) -> None:
        document = manifest(JOB, self._namespace, worker={"replicas": workers})
        del document["metadata"]["uid"]
        self._uid = self._api.create_job(document)["metadata"]["uid"]

    def start(self, replica: str, attempt: int = 0, word: str = "R") -> str:
        """Start the pod of a replica and return its name."""
        role, index = replica.split("-")
        name = f"{JOB}-{replica}" + (f"-r{attempt}" if attempt else "")
        labels = {"job": JOB, "job-uid": self._uid, "role": role, "index": index, "attempt": str(attempt)}
        spec = {
            "nodeName": self._node,
            "tolerations": [{"operator": "Exists"}, SILENT],
            "containers": [{"name": "tensorflow", "image": "x"}],
            "initContainers": [{"name": "tfdist-fetch", "image": "x"}],
            "restartPolicy": "Never",
        }
        metadata = {"name": name, "labels": {f"tfdist.dev/{key}": value for key, value in labels.items()}}
        self._api.do("POST", PODS.format(ns=self._namespace), {"metadata": metadata, "spec": spec})
        play(self._api, self.pod(name), word)
        return name

    def pod(self, name: str) -> str:
        return f"{PODS.format(ns=self._namespace)}/{name}"

    def end(self, pod: str, code: int = 0) -> None:
        """End the container of a pod, as kubelet and log."""
        self._api.end_container(self._namespace, pod, code)
        self.kubelet.log(pod).end()

    def remove(self, pod: str) -> None:
        self._api.do("DELETE", self.pod(pod), {"gracePeriodSeconds": 0})
        self.kubelet.log(pod).end()

    def delete(self) -> None:
        self._api.do("DELETE", self._job)

    def fail_init_container(self, pod: str) -> None:
        ended = {"exitCode": 1, "reason": "Error", "startedAt": at(0)[:19] + "Z", "finishedAt": at(1)[:19] + "Z"}
        init = {"name": "tfdist-fetch", "image": "x", "imageID": "", "ready": False, "restartCount": 0}
        status = {"phase": "Failed", "initContainerStatuses": [init | {"state": {"terminated": ended}}]}
        self._api.do("PATCH", f"{self.pod(pod)}/status", {"status": status}, "merge-patch")

    def report(self, phase: str, message: str, **status: object) -> None:
        """Write the status of the job."""
        summary = {"message": message}
        content = {"phase": phase, "observedGeneration": 1, "summary": summary, "attempt": 0} | status
        self._api.do("PATCH", f"{self._job}/status", {"status": content}, "merge-patch")

    def succeed(self, pods: Iterable[str]) -> None:
        """End the containers of all pods, and the job."""
        for pod in pods:
            self.end(pod)
        self.report("Succeeded", "training succeeded")

    @property
    def _job(self) -> str:
        return f"{JOBS.format(ns=self._namespace)}/{JOB}"

    @contextlib.contextmanager
    def run(self, *arguments: str) -> Iterator["Command"]:
        """Run a command in the background; it is killed at the end of the block."""
        command = Command([*arguments, "--kubeconfig", str(self.kubeconfig)], self._folder)
        try:
            yield command
        finally:
            command.process.kill()
            command.process.wait()

    def finished(self, *arguments: str) -> "Command":
        """Run a command to its end."""
        with self.run(*arguments) as command:
            command.wait()
            return command

    def through(self, address: str) -> None:
        """Have the user connect to the API server by another address."""
        config = yaml.safe_load(self.kubeconfig.read_text())
        config["clusters"][0]["cluster"] |= {"server": address, "tls-server-name": "127.0.0.1"}
        self.kubeconfig.write_text(yaml.safe_dump(config))


class Command:
    """A running `tfdist`, with its output so far."""

    def __init__(self, arguments: list[str], folder: pathlib.Path) -> None:
        self._output, self._errors = folder / "output", folder / "errors"
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join([str(ROOT / "sdk"), os.environ.get("PYTHONPATH", "")])
        }
        with self._output.open("wb") as output, self._errors.open("wb") as errors:
            command = [sys.executable, "-m", "tfdist.cli", *arguments]
            self.process = subprocess.Popen(command, stdout=output, stderr=errors, env=environment)

    @property
    def output(self) -> str:
        return self._output.read_text()

    @property
    def errors(self) -> str:
        return self._errors.read_text()

    def wait_for(self, text: str) -> None:
        """Wait until the output or the messages have a text."""
        wait_for(f"{text!r}", lambda: text in self.output + self.errors, context=lambda: self.output + self.errors)

    def wait(self) -> int:
        return self.process.wait(WAIT_SECONDS)

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        """Stop the process, as Ctrl-Z or a computer that sleeps, until the end of the block."""
        self.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WNOWAIT)
        yield
        self.process.send_signal(signal.SIGCONT)


@contextlib.contextmanager
def log_cluster(api: Api, namespace: str, folder: pathlib.Path) -> Iterator[Cluster]:
    """Run the node and the kubelet of a job until the block ends."""
    with silent_node(api) as node, log_kubelet(api, node, folder) as kubelet:
        yield Cluster(api, namespace, node, kubelet, folder)
