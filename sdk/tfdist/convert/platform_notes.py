"""Notes on settings that TFDist adds to pods, or removes from them, without a field of the TFJob.

Each note is written once for a job, at the first field that it concerns, and only if a field does.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from tfdist.contract import REPORT_PORT, TF_PORT
from tfdist.convert.replicas import Replicas
from tfdist.convert.result import AddNote, Json
from tfdist.convert.texts import texts
from tfdist.convert.tfjob import MAIN_CONTAINER, PORT_NAME
from tfdist.messages import join_path

DEFAULT_SCHEDULER: Final = "default-scheduler"
GANG_SCHEDULERS: Final = frozenset(
    {"volcano", "kube-batch", "scheduler-plugins", "scheduler-plugins-scheduler", "coscheduling", "yunikorn"}
    | {"koord-scheduler", "kai-scheduler", "godel-scheduler", "runai-scheduler"}
)
_GROUP_KEYS: Final = re.compile(
    r"pod-group\.scheduling\.sigs\.k8s\.io/|scheduling\.x-k8s\.io/pod-group|scheduling\.k8s\.io/group-name"
    r"|(scheduling\.)?volcano\.sh/|gang\.scheduling\.koordinator\.sh/|yunikorn\.apache\.org/(task-group|schedul)"
    r"|kueue\.x-k8s\.io/pod-group|kai\.scheduler/"
)
"""Labels and annotations by which schedulers recognize the pods of a gang."""
_SCRAPED_PORT: Final = "prometheus.io/port"
_TEMPORARY_FILE: Final = re.compile(r"(?<![\w./-])/tmp/[\w.-][\w./-]*")

_NO_GANG: Final = (
    "kept, but TFDist creates no PodGroup for it: replicas are not started all or none; a gang that is scheduled in "
    "part releases its nodes after scheduling.timeoutSeconds if other jobs wait for nodes, and "
    "runPolicy.startDeadlineSeconds limits the wait"
)
_OTHER_GROUP: Final = (
    "kept, but the pods belong to the PodGroup that TFDist creates; scheduling sets its queue and minAvailable"
)
_NO_ACCOUNT: Final = (
    "pods no longer have the token of the ServiceAccount default; a program that calls the Kubernetes API, or a "
    "sidecar such as Vault's, needs serviceAccountName: default in template.spec"
)
_HOST_NETWORK: Final = (
    f"kept; each replica also opens port {REPORT_PORT} (progress report) on its node, so that two replicas never share "
    "a node, even with different TensorFlow ports; the job's NetworkPolicy does not apply to them"
)


class _Found(NamedTuple):
    """A field of the TFJob, and the text of its note."""

    path: str
    message: str


def note_platform(replicas: Sequence[Replicas], add_note: AddNote, *, in_gang: bool) -> None:
    """Add the notes on gang scheduling, host network, closed ports, the ServiceAccount's token and `/tmp`.

    Args:
        replicas: the replicas of the TFJob.
        add_note: adds a note to the result.
        in_gang: whether `scheduling.gang` of the result is set.
    """
    gang = _group if in_gang else _gang
    first: Sequence[Callable[[Replicas], Iterator[_Found]]] = (gang, _host_network, _no_token, _temporary_files)
    for find in first:
        for finding in (finding for r in replicas for finding in find(r)):
            add_note(*finding)
            break
    closed_ports: dict[str, tuple[str, str]] = {}
    for number, place in (port for r in replicas for port in _closed_ports(r)):
        closed_ports.setdefault(number, place)
    if closed_ports:
        add_note(*_closed_ports_note(closed_ports))


def _gang(replicas: Replicas) -> Iterator[_Found]:
    """Yield a scheduler other than Kubernetes', or the first label or annotation of a pod group."""
    template, path = replicas.template, f"{replicas.path}.template"
    scheduler = template["spec"].get("schedulerName") or DEFAULT_SCHEDULER
    if scheduler != DEFAULT_SCHEDULER:
        condition = "" if scheduler in GANG_SCHEDULERS else "if it is a gang scheduler: "
        yield _Found(f"{path}.spec.schedulerName", f"{condition}{scheduler} is {_NO_GANG}")
    yield from _group(replicas, _NO_GANG)


def _group(replicas: Replicas, text: str = _OTHER_GROUP) -> Iterator[_Found]:
    """Yield the labels and annotations of a pod group, with a text."""
    template, path = replicas.template, f"{replicas.path}.template"
    for name in ("labels", "annotations"):
        for key in template.get("metadata", {}).get(name, ()):
            if _GROUP_KEYS.match(key):
                yield _Found(f"{path}.{join_path(['metadata', name, key])}", text)


def _host_network(replicas: Replicas) -> Iterator[_Found]:
    if replicas.template["spec"].get("hostNetwork"):
        yield _Found(f"{replicas.path}.template.spec.hostNetwork", _HOST_NETWORK)


def _no_token(replicas: Replicas) -> Iterator[_Found]:
    spec = replicas.template["spec"]
    fields = ("serviceAccountName", "serviceAccount", "automountServiceAccountToken")
    if all(spec.get(name) in {None, ""} for name in fields):
        yield _Found(f"{replicas.path}.template.spec", _NO_ACCOUNT)


def _temporary_files(replicas: Replicas) -> Iterator[_Found]:
    """Yield a file below `/tmp` that the container `tensorflow` mentions and none of its volumes provides."""
    containers = replicas.template["spec"]["containers"]
    place, main = next((i, c) for i, c in enumerate(containers) if c.get("name") == MAIN_CONTAINER)
    mount_paths = [mount["mountPath"].rstrip("/") for mount in main.get("volumeMounts", ())]
    for location, text in texts({k: v for k, v in main.items() if k not in {"image", "volumeMounts"}}):
        for file in _TEMPORARY_FILE.findall(text):
            if not any(f"{file}/".startswith(f"{path}/") for path in mount_paths):
                path = join_path(("template", "spec", "containers", place, *location))
                message = f"{file}: TFDist mounts an emptyDir at /tmp, which hides files of the image there; if the "
                yield _Found(f"{replicas.path}.{path}", f"{message}image has it, move it to another folder")


def _closed_ports(replicas: Replicas) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield number, path and name of every declared port except TensorFlow's, to which other pods could connect."""
    template, path = replicas.template, f"{replicas.path}.template"
    if template["spec"].get("hostNetwork"):
        return  # a NetworkPolicy does not apply
    for kind in ("containers", "initContainers"):
        for i, container in enumerate(template["spec"].get(kind, ())):
            for j, port in enumerate(container.get("ports", ())):
                if not _is_tensorflow(container, port):
                    place = f"{path}.spec.{kind}[{i}].ports[{j}]"
                    yield str(port["containerPort"]), (place, port.get("name", ""))
    annotations: Json = template.get("metadata", {}).get("annotations", {})
    if _SCRAPED_PORT in annotations:
        place = f"{path}.{join_path(['metadata', 'annotations', _SCRAPED_PORT])}"
        yield str(annotations[_SCRAPED_PORT]), (place, "")


def _is_tensorflow(container: Json, port: Json) -> bool:
    return container.get("name") == MAIN_CONTAINER and (
        port.get("name") == PORT_NAME or port["containerPort"] == TF_PORT
    )


def _closed_ports_note(ports: dict[str, tuple[str, str]]) -> _Found:
    path, _ = next(iter(ports.values()))
    numbers = ", ".join(f"{number} ({name})" if name else number for number, (_, name) in ports.items())
    subject = f"port {numbers} is" if len(ports) == 1 else f"ports {numbers} are"
    text = f"{subject} closed to pods outside of the job by its NetworkPolicy, also to Prometheus; to open them, write "
    return _Found(path, f"{text}spec.networkPolicyIngress, or networkPolicy: Disabled")
