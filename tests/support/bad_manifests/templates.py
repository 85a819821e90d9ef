"""Mistakes in pod templates, which the schema leaves open."""

import dataclasses
from typing import Any, Final

from support.bad_manifests.case import ABSENT, SHORT, TWICE, TYPE, Bad, container, field, pod

MAIN: Final = {"name": "tensorflow"}
SIDE: Final = {"name": "log", "image": "log:1"}
NO_IMAGE: Final = "no image is named for 'log': name one; only the container tensorflow can do without"
OURS: Final = "names that begin with tfdist- are the controller's; choose another"


def of_pod(name: str, path: str, message: str, **spec: Any) -> Bad:
    """Return a manifest with a mistake in the template's pod."""
    return pod(name, f".template.spec{path}", message, template={"spec": spec})


def served(name: str, path: str, message: str, server: str, **spec: Any) -> Bad:
    return dataclasses.replace(of_pod(name, path, message, **spec), server=server)


def twice(name: str, part: str, message: str, items: list[dict[str, Any]]) -> Bad:
    made = of_pod(name, f".{part}", "", **{part: items})
    return dataclasses.replace(made, says=f"spec.template.spec.{part}{message}", server=TWICE)


_PODS: Final = (
    of_pod(
        "a restart policy",
        ".restartPolicy",
        "the controller restarts replicas, together where they must be",
        restartPolicy="OnFailure",
    ),
    of_pod(
        "a host name", ".hostname", "the controller names every replica's host, so that TF_CONFIG holds", hostname="a"
    ),
    of_pod("a subdomain", ".subdomain", "the controller sets it, so that the replicas find each other", subdomain="a"),
    of_pod(
        "a deadline of the pods",
        ".activeDeadlineSeconds",
        "it would end pods behind the controller's back",
        activeDeadlineSeconds=60,
    ),
    of_pod(
        "a typo in the pod",
        ".nodeSelektor",
        "unknown field (given an object); did you mean nodeSelector?",
        nodeSelektor={},
    ),
    of_pod(
        "a field of a container in the pod",
        ".image",
        "unknown field (given the text 'x'); it belongs to Container",
        image="x",
    ),
    of_pod(
        "a toleration with a typo",
        ".tolerations[0].efect",
        "unknown field (given the text 'NoSchedule'); did you mean effect?",
        tolerations=[{"key": "gpu", "operator": "Exists", "efect": "NoSchedule"}],
    ),
    of_pod("tolerations as an object", ".tolerations", "must be a list, got an object", tolerations={"key": "gpu"}),
    of_pod(
        "a selector that is a boolean",
        ".nodeSelector.gpu",
        "must be a text, got true: put it in quotes",
        nodeSelector={"gpu": True},
    ),
    of_pod(
        "an affinity of an odd operator",
        ".affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].operator",
        "must be one of",
        affinity={
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Is", "values": ["b"]}]}]
                }
            }
        },
    ),
    of_pod(
        "a template's empty field",
        ".serviceAccountName",
        "empty: remove the line or give a value",
        serviceAccountName=None,
    ),
    twice(
        "a template's volume twice", "volumes", "[1].name: name 'v' is already in", [{"name": "v", "emptyDir": {}}] * 2
    ),
    of_pod(
        "a template's volume of two sources",
        ".volumes[0]",
        "names emptyDir and secret, which exclude each other",
        volumes=[{"name": "v", "emptyDir": {}, "secret": {"secretName": "s"}}],
    ),
    of_pod(
        "a template's volume of the controller's",
        ".volumes[0].name",
        OURS,
        volumes=[{"name": "tfdist-source", "emptyDir": {}}],
    ),
    of_pod(
        "a sidecar of the controller's name",
        ".containers[1].name",
        OURS,
        containers=[MAIN, {"name": "tfdist-x", "image": "x"}],
    ),
    twice("a container twice", "containers", "[2].name: name 'log' is already in", [MAIN, SIDE, SIDE]),
    served(
        "a container without a name", ".containers[0].name", "required, and absent", ABSENT, containers=[{"image": "x"}]
    ),
    served(
        "containers as an object",
        ".containers",
        "must be a list, got an object",
        'unknown field "spec.template.spec.containers.tensorflow"',
        containers={"tensorflow": {}},
    ),
    of_pod(
        "a sidecar's mount of a missing volume",
        ".containers[1].volumeMounts[0].name",
        "no volume is called 'none'; there is none",
        containers=[MAIN, {**SIDE, "volumeMounts": [{"name": "none", "mountPath": "/x"}]}],
    ),
    of_pod(
        "a sidecar's request above its limit",
        ".containers[1].resources.requests.cpu",
        "2 is more than the limit, 1",
        containers=[MAIN, {**SIDE, "resources": {"requests": {"cpu": 2}, "limits": {"cpu": 1}}}],
    ),
    of_pod("a sidecar without an image", ".containers[1].image", NO_IMAGE, containers=[MAIN, {"name": "log"}]),
    of_pod(
        "a sidecar of an empty image", ".containers[0].image", NO_IMAGE, containers=[{"name": "log", "image": ""}, MAIN]
    ),
    of_pod(
        "an init container without an image", ".initContainers[0].image", NO_IMAGE, initContainers=[{"name": "log"}]
    ),
    of_pod(
        "a container that trains under a wrong name",
        ".containers[0].image",
        "no image is named for 'tensorflw'",
        containers=[{"name": "tensorflw", "env": [{"name": "A", "value": "1"}]}],
    ),
    twice("an init container twice", "initContainers", "[1].name: name 'log' is already in", [SIDE, SIDE]),
    of_pod(
        "an init container of the controller's name",
        ".initContainers[0].name",
        OURS,
        initContainers=[{"name": "tfdist-fetch", "image": "x"}],
    ),
    of_pod(
        "a typo in an init container",
        ".initContainers[0].comand",
        "unknown field (given a list); did you mean command?",
        initContainers=[{**SIDE, "comand": ["x"]}],
    ),
)

_CONTAINERS: Final = (
    container(
        "a typo deep inside",
        ".securityContext.capabilities.dropp",
        "unknown field (given a list); did you mean drop?",
        securityContext={"capabilities": {"dropp": ["ALL"]}},
    ),
    container(
        "a template's own TF_CONFIG",
        ".env[0].name",
        "TF_CONFIG is generated for each replica; remove the variable",
        env=[{"name": "TF_CONFIG", "value": "{}"}],
    ),
    container(
        "a template's variable twice", ".env[1].name", "name 'A' is already in", env=[{"name": "A"}, {"name": "A"}]
    ),
    container(
        "a template's variable that is a number",
        ".env[0].value",
        "must be a text, got the number 1: put it in quotes",
        env=[{"name": "A", "value": 1}],
    ),
    container(
        "a template's mount twice",
        ".volumeMounts[1].mountPath",
        "mountPath '/a' is already in",
        volumeMounts=[{"name": "v", "mountPath": "/a"}] * 2,
    ),
    container(
        "a port of a container twice",
        ".ports[1].containerPort",
        "containerPort '80'",
        ports=[{"containerPort": 80}, {"containerPort": 80}],
    ),
    container(
        "a port as a text",
        ".ports[0].containerPort",
        "must be an integer, got the text '80'",
        ports=[{"containerPort": "80"}],
    ),
    container(
        "a template's malformed amount",
        ".resources.limits.memory",
        "'16GB' is no quantity; did you mean '16G'?",
        resources={"limits": {"memory": "16GB"}},
    ),
    container(
        "a probe of two kinds",
        ".livenessProbe",
        "names exec and tcpSocket, which exclude each other",
        livenessProbe={"exec": {"command": ["x"]}, "tcpSocket": {"port": 80}},
    ),
    container(
        "a probe of nothing",
        ".livenessProbe",
        "names nothing to use; add one of exec",
        livenessProbe={"periodSeconds": 5},
    ),
    container(
        "a pull policy of a template",
        ".imagePullPolicy",
        "must be one of Always, IfNotPresent, Never",
        imagePullPolicy="Sometimes",
    ),
    container(
        "a template's command in one line",
        ".command",
        "must be a list, got the text 'python train.py'",
        command="python train.py",
    ),
)

_ROLES: Final = (
    pod(
        "a typo in a role's template",
        ".worker.template.spec.tolerationss",
        "unknown field",
        worker={"template": {"spec": {"tolerationss": []}}},
    ),
    pod(
        "a role's own TF_CONFIG in its template",
        ".chief.template.spec.containers[0].env[0].name",
        "TF_CONFIG is generated",
        chief={"template": {"spec": {"containers": [{**MAIN, "env": [{"name": "TF_CONFIG"}]}]}}},
    ),
    pod(
        "a host name of the evaluator",
        ".evaluator.template.spec.hostname",
        "the controller names every replica's host",
        evaluator={"template": {"spec": {"hostname": "a"}}},
    ),
    pod(
        "no container that trains",
        ".template.spec.containers[0].name",
        "no container is called tensorflow, the one that trains: rename train to it",
        template={"spec": {"containers": [{"name": "train", "image": "x"}]}},
        without=["training"],
    ),
    pod(
        "a template without a program",
        ".training",
        "nothing to run: set training.program for the bundled trainer, or image",
        template={},
        without=["training"],
    ),
    pod(
        "a sidecar of one role without an image",
        ".worker.template.spec.containers[0].image",
        NO_IMAGE,
        worker={"template": {"spec": {"containers": [{"name": "log"}]}}},
    ),
    field(
        "a template's container without a letter",
        "template.spec.containers[0].name",
        "",
        "write at least 1 charac",
        SHORT,
    ),
    field("a template in one line", "template", "pod.yaml", "write a map of fields; got 'pod.yaml'", TYPE),
    field("a template's pod as a list", "template.spec", [], "must be an object, got a list", TYPE),
)

CASES: Final[tuple[Bad, ...]] = (*_PODS, *_CONTAINERS, *_ROLES)
