"""A real API server as tests speak with it: JSON in and out."""

import pathlib
from typing import Any

import kubernetes.client
import kubernetes.config
import requests

Json = dict[str, Any]

JOBS = "/apis/tfdist.dev/v1/namespaces/{ns}/tfdistjobs"
PODS = "/api/v1/namespaces/{ns}/pods"


class Api:
    """Requests to an API server with the rights of a kubeconfig's user."""

    def __init__(self, kubeconfig: pathlib.Path) -> None:
        config: Any = kubernetes.client.Configuration()
        load: Any = kubernetes.config.load_kube_config
        load(str(kubeconfig), client_configuration=config)
        self.kubeconfig = kubeconfig
        self.host: str = config.host
        self.authority: str = config.ssl_ca_cert
        self._session = requests.Session()
        self._session.trust_env = False  # or REQUESTS_CA_BUNDLE goes before the authority of the kubeconfig
        self._session.verify = config.ssl_ca_cert
        self._session.cert = (config.cert_file, config.key_file)

    def send(
        self, method: str, path: str, body: Json | None = None, kind: str = "json", **query: str
    ) -> requests.Response:
        """Send a request and return the answer whatever it is; `kind` is that of a patch (`merge-patch`, ...)."""
        content = {"json": "application/json", "apply": "application/apply-patch+yaml"}
        headers = {"Content-Type": content.get(kind, f"application/{kind}+json")}
        return self._session.request(method, self.host + path, json=body, headers=headers, params=query, timeout=30)

    def do(self, method: str, path: str, body: Json | None = None, kind: str = "json", **query: str) -> Json:
        """Send a request that must succeed and return its JSON."""
        answer = self.send(method, path, body, kind, **query)
        assert answer.ok, f"{method} {path}: {answer.status_code} {answer.text}"
        result: Json = answer.json()
        return result

    def table(self, path: str) -> Json:
        """Return a list as the table that `kubectl get` asks for."""
        accepted = {"Accept": "application/json;as=Table;g=meta.k8s.io;v=v1"}
        answer = self._session.get(self.host + path, headers=accepted, timeout=30)
        assert answer.ok, f"GET {path}: {answer.status_code} {answer.text}"
        result: Json = answer.json()
        return result

    def post_text(self, path: str, text: str) -> requests.Response:
        """POST JSON that no library of this process can make, and return the answer."""
        headers = {"Content-Type": "application/json"}
        return self._session.post(self.host + path, data=text.encode(), headers=headers, timeout=30)

    def apply(self, manifest: Json, path: str) -> Json:
        """Apply a manifest on the server's side."""
        full = f"{path}/{manifest['metadata']['name']}"
        return self.do("PATCH", full, manifest, "apply", fieldManager="tests", force="true")

    def create_job(self, manifest: Json) -> Json:
        """Create a job, with the strictness that kubectl asks for."""
        path = JOBS.format(ns=manifest["metadata"]["namespace"])
        return self.do("POST", path, manifest, fieldValidation="Strict")

    def job(self, ns: str, name: str) -> Json:
        """Return a job."""
        return self.do("GET", f"{JOBS.format(ns=ns)}/{name}")

    def pods(self, ns: str) -> list[Json]:
        """Return the pods of a namespace by name."""
        items: list[Json] = self.do("GET", PODS.format(ns=ns))["items"]
        return sorted(items, key=lambda pod: str(pod["metadata"]["name"]))

    def end_container(self, ns: str, pod: str, exit_code: int, message: str = "") -> None:
        """Report, as a kubelet would, that the container `tensorflow` of a pod has ended."""
        ended = {"exitCode": exit_code, "message": message, "reason": "Completed" if exit_code == 0 else "Error"}
        times = {"startedAt": "2030-01-01T00:00:00Z", "finishedAt": "2030-01-01T00:01:00Z"}
        container = {
            "name": "tensorflow",
            "ready": False,
            "restartCount": 0,
            "image": "x",
            "imageID": "",
            "state": {"terminated": ended | times},
        }
        phase = "Succeeded" if exit_code == 0 else "Failed"
        status = {"status": {"phase": phase, "containerStatuses": [container]}}
        self.do("PATCH", f"{PODS.format(ns=ns)}/{pod}/status", status, "merge-patch")
