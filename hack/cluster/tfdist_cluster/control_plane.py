"""A control plane of plain processes: etcd, API server, controller manager, scheduler, and kwok for fake nodes.

It needs one executable, neither root nor containers, and is ready within seconds: for tests of a controller, which
need a true API server but no running pods. Each process has a recorded identity; `up` starts those that do not run,
so it repairs the control plane after any of them was killed. `down` stops them and removes all data.
"""

import json
import shutil
import socket
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from string import Template

from tfdist_cluster import console, content, kubernetes, lock, process, shell, tools, versions
from tfdist_cluster.errors import ClusterError
from tfdist_cluster.paths import MANIFESTS, State

READY_SECONDS = 60
SERVERS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
FAKE = "kwok"
NOWHERE = "192.0.2.1"  # an address for documentation; kubeadm rejects the loopback address
FAKE_ANNOTATION = "kwok.x-k8s.io/node"


@dataclass(frozen=True, slots=True)
class Ports:
    """The ports of this machine that the servers listen on, on its loopback address."""

    etcd: int
    etcd_peer: int
    api: int
    manager: int
    scheduler: int

    @classmethod
    def free(cls) -> "Ports":
        """Choose free ports; every socket stays open until the last port is allocated, so the ports differ."""
        sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(5)]
        try:
            return cls(*(listener.getsockname()[1] for listener in sockets))
        finally:
            for listener in sockets:
                listener.close()


def up(state: State, fake_nodes: int) -> Path:
    """Make the control plane ready, with at least this number of fake nodes, and return its kubeconfig."""
    with lock.exclusive(state.root / "control-plane.lock"):
        folder, version = state.control_plane, kubernetes.chosen()
        kubernetes.require_same(folder, version, runs=any(running(state).values()))
        programs = kubernetes.programs(state, version)
        with console.step("start the control plane", expected_seconds=6):
            ports = _configure(state)
            _start(state, ports, programs, SERVERS[:2])
            _wait_ready(ports.api, "/readyz", folder)
            _start(state, ports, programs, SERVERS[2:])
            _wait_ready(ports.manager, "/healthz", folder)
            _wait_ready(ports.scheduler, "/healthz", folder)
        if fake_nodes:
            _fake_nodes(state, fake_nodes)
    return kubeconfig(state)


def down(state: State) -> None:
    """Stop every process of the control plane and remove its data."""
    with lock.exclusive(state.root / "control-plane.lock"):
        for name in reversed((*SERVERS, FAKE)):
            # The data is deleted below; only the API server takes seconds to shut down.
            process.stop(_pid_file(state, name), grace_seconds=3)
        content.remove(state.control_plane)


def running(state: State) -> Mapping[str, process.Identity | None]:
    """Return the processes by name."""
    return {name: process.read(_pid_file(state, name)) for name in (*SERVERS, FAKE)}


def ready(state: State) -> bool:
    """Return whether the API server reports that it is ready."""
    return shell.succeeds(_kubectl(state, "get", "--raw", "/readyz"), timeout_seconds=5)


def kubeconfig(state: State) -> Path:
    """Return the kubeconfig of an administrator."""
    return state.control_plane / "kubeconfig"


def _pid_file(state: State, name: str) -> Path:
    return state.control_plane / f"{name}.pid"


def _kubectl(state: State, *arguments: str) -> list[object]:
    return [state.bin / "kubectl", "--kubeconfig", kubeconfig(state), *arguments]


def _configure(state: State) -> Ports:
    """Return the ports, with certificates for them; nothing changes while a server runs."""
    path = state.control_plane / "ports.json"
    if path.exists():
        ports = Ports(**json.loads(path.read_text()))
        if any(running(state).values()) or not any(_listens(port) for port in asdict(ports).values()):
            return ports
        console.info("    another program listens on a port of the control plane: choosing other ports")
    path.unlink(missing_ok=True)
    ports = Ports.free()
    _make_certificates(state, ports)
    content.write_atomically(path, json.dumps(asdict(ports)))  # last: it exists only with the certificates
    return ports


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _make_certificates(state: State, ports: Ports) -> None:
    """Create certificates and kubeconfigs with phases of kubeadm, which change nothing else on this machine."""
    folder = state.control_plane
    for output in ("pki", "kubeconfig", "config"):
        content.remove(folder / output)
    configuration = folder / "kubeadm.yaml"
    template = Template((MANIFESTS / "control-plane.yaml").read_text())
    configuration.write_text(
        template.substitute(
            nowhere=NOWHERE,
            version=versions.KUBERNETES,
            api_port=ports.api,
            pki=json.dumps(str(folder / "pki")),
            service_range=versions.SERVICE_RANGE,
        )
    )
    for name in ("ca", "apiserver", "sa", "front-proxy-ca", "front-proxy-client"):
        _phase(state, "certs", name, f"--config={configuration}")
    # super-admin, since only a complete `kubeadm init` creates the ClusterRoleBinding of admin.
    for name in ("super-admin", "controller-manager", "scheduler"):
        _phase(state, "kubeconfig", name, f"--config={configuration}", f"--kubeconfig-dir={folder / 'config'}")
        kubeconfig_file = folder / "config" / f"{name}.conf"
        kubeconfig_file.write_text(kubeconfig_file.read_text().replace(NOWHERE, "127.0.0.1"))
    shutil.copy2(folder / "config" / "super-admin.conf", kubeconfig(state))


def _phase(state: State, *arguments: str) -> None:
    shell.run([state.bin / "kubeadm", "init", "phase", *arguments])


def _start(state: State, ports: Ports, programs: Mapping[str, Path], names: Sequence[str]) -> None:
    """Start those servers that do not run."""
    for name in names:
        if process.read(_pid_file(state, name)) is None:
            command = [programs[name], *options(name, ports, state.control_plane, kubernetes.chosen())]
            process.start(command, pid_file=_pid_file(state, name), log=state.control_plane / f"{name}.log")


def options(name: str, ports: Ports, folder: Path, version: str = versions.KUBERNETES) -> list[str]:
    """Return the options of a server, given ports, the folder of certificates and data, and the Kubernetes version."""
    pki = folder / "pki"
    client = "127.0.0.1"
    match name:
        case "etcd":
            flags: dict[str, object] = {
                "data-dir": folder / "etcd",
                "listen-client-urls": f"http://{client}:{ports.etcd}",
                "advertise-client-urls": f"http://{client}:{ports.etcd}",
                "listen-peer-urls": f"http://{client}:{ports.etcd_peer}",
                "initial-advertise-peer-urls": f"http://{client}:{ports.etcd_peer}",
                "initial-cluster": f"default=http://{client}:{ports.etcd_peer}",
                "unsafe-no-fsync": "true",  # tests need no durability
                "log-level": "warn",
            }
        case "kube-apiserver":
            flags = _api_server(ports, pki)
        case "kube-controller-manager":
            flags = {
                **_component(folder, "controller-manager", ports.manager),
                "service-account-private-key-file": pki / "sa.key",
                "root-ca-file": pki / "ca.crt",
                "use-service-account-credentials": "true",
            }
        case _:
            flags = _component(folder, "scheduler", ports.scheduler)
    if name != "etcd" and version == versions.KUBERNETES:
        flags |= {"feature-gates": "GenericWorkload=true"}  # gangs of the scheduler, by PodGroups
        flags |= {"runtime-config": "scheduling.k8s.io/v1beta1=true"} if name == "kube-apiserver" else {}
    return [f"--{option}={value}" for option, value in flags.items()]


def _api_server(ports: Ports, pki: Path) -> dict[str, object]:
    return {
        "etcd-servers": f"http://127.0.0.1:{ports.etcd}",
        "bind-address": "127.0.0.1",
        "secure-port": str(ports.api),
        "endpoint-reconciler-type": "none",  # no pod connects to the API server
        "service-cluster-ip-range": versions.SERVICE_RANGE,
        "authorization-mode": "Node,RBAC",
        "allow-privileged": "true",
        "kubelet-preferred-address-types": "InternalIP",
        "client-ca-file": pki / "ca.crt",
        "tls-cert-file": pki / "apiserver.crt",
        "tls-private-key-file": pki / "apiserver.key",
        "service-account-issuer": "https://kubernetes.default.svc",
        "service-account-key-file": pki / "sa.pub",
        "service-account-signing-key-file": pki / "sa.key",
        "requestheader-client-ca-file": pki / "front-proxy-ca.crt",
        "requestheader-allowed-names": "front-proxy-client",
        "requestheader-extra-headers-prefix": "X-Remote-Extra-",
        "requestheader-group-headers": "X-Remote-Group",
        "requestheader-username-headers": "X-Remote-User",
        "proxy-client-cert-file": pki / "front-proxy-client.crt",
        "proxy-client-key-file": pki / "front-proxy-client.key",
    }


def _component(folder: Path, name: str, port: int) -> dict[str, object]:
    config = folder / "config" / f"{name}.conf"
    return {
        "kubeconfig": config,
        "authentication-kubeconfig": config,
        "authorization-kubeconfig": config,
        "bind-address": "127.0.0.1",
        "secure-port": str(port),
        "leader-elect": "false",  # one replica each, which need not wait for a lease
        "kube-api-qps": "1000",
        "kube-api-burst": "2000",
    }


def _wait_ready(port: int, path: str, folder: Path) -> None:
    """Wait until a server responds with 200; the health endpoints need no authentication."""
    url = f"https://127.0.0.1:{port}{path}"
    try:
        shell.wait_until(lambda: healthy(url), timeout_seconds=READY_SECONDS, what=f"{url} answers")
    except ClusterError as error:
        raise ClusterError(f"{error}; the servers' logs are in {folder}") from error


def healthy(url: str) -> bool:
    """Return whether a server of this machine responds to a health check with 200."""
    import ssl  # noqa: PLC0415  costs 20 ms, which only this needs
    import urllib.error  # noqa: PLC0415
    import urllib.request  # noqa: PLC0415

    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # a health check on the loopback address sends no secret
    try:
        with urllib.request.urlopen(url, timeout=2, context=context) as response:
            return bool(response.status == 200)
    except (OSError, urllib.error.URLError):
        return False


def _fake_nodes(state: State, count: int) -> None:
    """Run kwok, which simulates the kubelet of annotated nodes, and create the nodes."""
    program = tools.ensure(state, FAKE)
    if process.read(_pid_file(state, FAKE)) is None:
        command = [
            program, "--kubeconfig", kubeconfig(state), f"--config={fake_kubelet(state)}", "--manage-all-nodes=false",
            f"--manage-nodes-with-annotation-selector={FAKE_ANNOTATION}=fake",
            "--node-lease-duration-seconds=40",  # less than the controller manager's grace period of 50 s
        ]  # fmt: skip
        process.start(command, pid_file=_pid_file(state, FAKE), log=state.control_plane / "kwok.log")
    with console.step(f"make {count} fake nodes"):
        node_list = {"apiVersion": "v1", "kind": "List", "items": [_fake_node(number) for number in range(count)]}
        shell.run(
            _kubectl(state, "apply", "--server-side", "--force-conflicts", "-f", "-"), stdin=json.dumps(node_list)
        )
        shell.run(_kubectl(state, "wait", "--for=condition=Ready", "nodes", "--all", "--timeout=60s"))


def fake_kubelet(
    state: State,
    pod_address: str = "{{ PodIPWith .spec.nodeName false .metadata.uid .metadata.name .metadata.namespace | Quote }}",
    node_address: str = "{{ NodeIPWith .spec.nodeName | Quote }}",
) -> Path:
    """Write kwok's configuration, with expressions of its templates for the addresses of pods, and return its path."""
    text = Template((MANIFESTS / "kwok.yaml").read_text())
    path = state.control_plane / "kwok.yaml"
    path.write_text(text.substitute(pod_address=pod_address, node_address=node_address))
    return path


def _fake_node(number: int) -> dict[str, object]:
    resources = {"cpu": "10000", "memory": "100Ti", "pods": "100000", "nvidia.com/gpu": "10000"}
    name = f"fake-{number}"
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": {FAKE_ANNOTATION: "fake"},
            "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "type": "kwok"},
        },
        "status": {"allocatable": resources, "capacity": resources},
    }
