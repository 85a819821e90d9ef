"""The real controller as a process, with the rights of its shipped role and no others."""

import os
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import requests
import yaml

from support.api import Api, Json
from support.polling import WAIT_SECONDS, wait_for
from support.ports import free_ports
from tfdist.api.crd import KINDS

ROOT = pathlib.Path(__file__).resolve().parents[2]
SYSTEM = "tfdist-system"
ACCOUNT_NAME = "tfdist-controller"
ACCOUNT = f"/api/v1/namespaces/{SYSTEM}/serviceaccounts"
RBAC = "/apis/rbac.authorization.k8s.io/v1"


def install(api: Api) -> None:
    """Install the CRDs and the controller's account and role, but not its Deployment."""
    for kind in KINDS:
        _install_crd(api, yaml.safe_load((ROOT / "crds" / f"{kind.plural}.yaml").read_text()))
    api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM}}, "/api/v1/namespaces")
    account = {"name": ACCOUNT_NAME, "namespace": SYSTEM}
    api.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account}, ACCOUNT)
    for role in yaml.safe_load_all((ROOT / "operator/manifests/role.yaml").read_text()):
        namespace = role["metadata"].get("namespace")
        collection = f"{RBAC}/namespaces/{namespace}" if namespace else RBAC
        api.apply(role, f"{collection}/{role['kind'].lower()}s")
        api.apply(_binding(role), f"{collection}/{role['kind'].lower()}bindings")


def _install_crd(api: Api, crd: Json) -> None:
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    api.apply(crd, path)
    name = crd["metadata"]["name"]
    wait_for(f"{name} to be served", lambda: _established(api.do("GET", f"{path}/{name}")))


def _binding(role: Json) -> Json:
    """Return what gives a role to the controller's account."""
    return {
        "apiVersion": role["apiVersion"],
        "kind": f"{role['kind']}Binding",
        "metadata": role["metadata"],
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": role["kind"],
            "name": role["metadata"]["name"],
        },
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT_NAME, "namespace": SYSTEM}],
    }


def _established(crd: Json) -> bool:
    conditions = {c["type"]: c["status"] for c in crd.get("status", {}).get("conditions") or ()}
    return conditions.get("Established") == "True"


class Controller:
    """A running controller. `requests_made` is its own count of its requests to the API server."""

    def __init__(self, process: "subprocess.Popen[bytes]", port: int) -> None:
        self.process = process
        self.address = f"http://127.0.0.1:{port}"

    def get(self, path: str) -> requests.Response:
        """Return the answer of its own server."""
        return requests.get(f"{self.address}{path}", timeout=30)

    def ready(self) -> bool:
        """Return whether it answers that it is ready."""
        assert self.process.poll() is None, f"the controller ended with {self.process.returncode}"
        return bool(self.readiness())

    def readiness(self) -> str:
        """Return the answer of `/readyz` while it is ready; "" while it is not ready or does not answer."""
        try:
            answer = self.get("/readyz")
        except (requests.ConnectionError, requests.Timeout):
            return ""
        return answer.text.strip() if answer.ok else ""

    def leads(self) -> bool:
        """Return whether `/readyz` reports that it leads."""
        return self.readiness() == "ready; leading"

    def api_requests(self) -> dict[tuple[str, str, str], int]:
        """Return the number of its requests to the API server by verb, resource and code."""
        text = self.get("/metrics").text
        counts: dict[tuple[str, str, str], int] = {}
        for labels, value in re.findall(r"^tfdist_api_requests_total\{(.*)\} (\S+)$", text, re.MULTILINE):
            fields = dict(re.findall(r'(\w+)="([^"]*)"', labels))
            counts[fields["verb"], fields["resource"], fields["code"]] = int(float(value))
        return counts

    def requests_made(self) -> dict[str, int]:
        """Return the number of requests by `verb resource`; watches, first lists and the election are left out."""
        counts: dict[str, int] = {}
        for (verb, resource, _), count in self.api_requests().items():
            if verb not in {"WATCH", "LIST", "GET"} and resource != "leases":
                counts[f"{verb} {resource}"] = counts.get(f"{verb} {resource}", 0) + count
        return counts


@contextmanager
def controller(api: Api, folder: pathlib.Path, *, server: str = "", **environment: str) -> Iterator[Controller]:
    """Run the controller under its own account until the block ends; it reaches the API server as `server`."""
    (port,) = free_ports(1)
    folder.mkdir(exist_ok=True)
    variables = {
        "KUBECONFIG": str(_kubeconfig(api, folder, server or api.host)),
        "TFDIST_PORT": str(port),
        "TFDIST_TRAINER_IMAGE": "tfdist/trainer:test",
        "TFDIST_LEADER_ELECTION": "false",  # most tests run one controller
    }
    with (folder / "controller.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tfdist_operator.app"],
            env=os.environ | variables | environment,
            stdout=log,
            stderr=log,
        )
        running = Controller(process, port)
        try:
            wait_for("the controller to be ready", running.ready)
            yield running
        finally:
            ended = process.poll() is not None  # the test killed it, or waited for its end
            process.terminate()
            code = process.wait(timeout=WAIT_SECONDS)
            print((folder / "controller.log").read_text())  # pytest shows it if a test failed
            assert ended or code in {0, -9}, (
                f"after the signal to stop, the controller ended with {code}"
            )  # -9: the test's kill


def _kubeconfig(api: Api, folder: pathlib.Path, server: str) -> pathlib.Path:
    """Write a kubeconfig that holds a token of the controller's account."""
    token = api.do("POST", f"{ACCOUNT}/{ACCOUNT_NAME}/token", {"spec": {"expirationSeconds": 3600}})
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": server, "certificate-authority": api.authority}}],
        "users": [{"name": "c", "user": {"token": token["status"]["token"]}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
    }
    path = folder / "controller.kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path
