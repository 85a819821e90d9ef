"""Errors in pod templates, which the schema leaves open."""

import dataclasses
from typing import Any, Final

from support.bad_manifests.case import ABSENT, SHORT, TWICE, TYPE, Bad, container, field, pod

MAIN: Final = {"name": "tensorflow"}
SIDE: Final = {"name": "log", "image": "log:1"}
NO_IMAGE: Final = "Required value: only the container tensorflow has a default image"
OURS: Final = "the prefix tfdist- is reserved; use another name"


def of_pod(name: str, path: str, message: str, **spec: Any) -> Bad:
    """Return a manifest with an error in the template's pod."""
    return pod(name, f".template.spec{path}", message, template={"spec": spec})


def served(name: str, path: str, message: str, server: str, **spec: Any) -> Bad:
    return dataclasses.replace(of_pod(name, path, message, **spec), server=server)


def twice(name: str, part: str, message: str, items: list[dict[str, Any]]) -> Bad:
    bad = of_pod(name, f".{part}", "", **{part: items})
    return dataclasses.replace(bad, expected=f"spec.template.spec.{part}{message}", server=TWICE)


_PODS: Final = (
    of_pod(
        "a restart policy",
        ".restartPolicy",
        "Forbidden: the controller restarts replicas; remove it and see failurePolicy",
        restartPolicy="OnFailure",
    ),
    of_pod(
        "a host name",
        ".hostname",
        "Forbidden: the controller sets it to the name in TF_CONFIG; remove it",
        hostname="a",
    ),
    of_pod("a subdomain", ".subdomain", "Forbidden: the controller sets it to the job's Service", subdomain="a"),
    of_pod(
        "a deadline of the pods",
        ".activeDeadlineSeconds",
        "Forbidden: the kubelet would end pods of a running job; use runPolicy.activeDeadlineSeconds",
        activeDeadlineSeconds=60,
    ),
    of_pod(
        "a typo in the pod",
        ".nodeSelektor",
        "unknown field; did you mean nodeSelector?",
        nodeSelektor={},
    ),
    of_pod(
        "a field of a container in the pod",
        ".image",
        "unknown field; it belongs to Container, not to PodSpec",
        image="x",
    ),
    of_pod(
        "a toleration with a typo",
        ".tolerations[0].efect",
        "unknown field; did you mean effect?",
        tolerations=[{"key": "gpu", "operator": "Exists", "efect": "NoSchedule"}],
    ),
    of_pod("tolerations as an object", ".tolerations", "must be a list", tolerations={"key": "gpu"}),
    of_pod(
        "a selector that is a boolean",
        ".nodeSelector.gpu",
        "must be a string; quote it",
        nodeSelector={"gpu": True},
    ),
    of_pod(
        "an affinity of an odd operator",
        ".affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].operator",
        'Unsupported value: "Is": supported values: DoesNotExist, Exists, Gt, In, Lt, NotIn',
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
        "must not be null; set a value, or remove the field",
        serviceAccountName=None,
    ),
    twice(
        "a template's volume twice",
        "volumes",
        '[1].name: Duplicate value: "v": also in spec.template.spec.volumes[0]',
        [{"name": "v", "emptyDir": {}}] * 2,
    ),
    of_pod(
        "a template's volume of two sources",
        ".volumes[0]",
        "Forbidden: emptyDir and secret are mutually exclusive; keep one of them",
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
    twice("a container twice", "containers", "[2].name: also in", [MAIN, SIDE, SIDE]),
    served("a container without a name", ".containers[0].name", "Required value", ABSENT, containers=[{"image": "x"}]),
    served(
        "containers as an object",
        ".containers",
        "must be a list",
        'unknown field "spec.template.spec.containers.tensorflow"',
        containers={"tensorflow": {}},
    ),
    of_pod(
        "a sidecar's mount of a missing volume",
        ".containers[1].volumeMounts[0].name",
        "no volume has this name, the pod has none; correct the name, or add it to volumes",
        containers=[MAIN, {**SIDE, "volumeMounts": [{"name": "none", "mountPath": "/x"}]}],
    ),
    of_pod(
        "a sidecar's request above its limit",
        ".containers[1].resources.requests.cpu",
        "must be less than or equal to the limit of 1",
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
        "Required value: only the container tensorflow has a default image",
        containers=[{"name": "tensorflw", "env": [{"name": "A", "value": "1"}]}],
    ),
    twice("an init container twice", "initContainers", "[1].name: also in", [SIDE, SIDE]),
    of_pod(
        "an init container of the controller's name",
        ".initContainers[0].name",
        OURS,
        initContainers=[{"name": "tfdist-fetch", "image": "x"}],
    ),
    of_pod(
        "a typo in an init container",
        ".initContainers[0].comand",
        "unknown field; did you mean command?",
        initContainers=[{**SIDE, "comand": ["x"]}],
    ),
)

_CONTAINERS: Final = (
    container(
        "a typo deep inside",
        ".securityContext.capabilities.dropp",
        "unknown field; did you mean drop?",
        securityContext={"capabilities": {"dropp": ["ALL"]}},
    ),
    container(
        "a template's own TF_CONFIG",
        ".env[0].name",
        "TF_CONFIG and TFDIST_JOB are reserved; remove the variable",
        env=[{"name": "TF_CONFIG", "value": "{}"}],
    ),
    container(
        "a template's variable twice",
        ".env[1].name",
        'Duplicate value: "A": also in spec.template.spec.containers[0].env[0]',
        env=[{"name": "A"}, {"name": "A"}],
    ),
    container(
        "a template's variable that is a number",
        ".env[0].value",
        "must be a string; quote it",
        env=[{"name": "A", "value": 1}],
    ),
    container(
        "a template's mount twice",
        ".volumeMounts[1].mountPath",
        'Duplicate value: "/a": also in spec.template.spec.containers[0].volumeMounts[0]',
        volumeMounts=[{"name": "v", "mountPath": "/a"}] * 2,
    ),
    container(
        "a port of a container twice",
        ".ports[1].containerPort",
        'Duplicate value: "80, TCP": also in spec.template.spec.containers[0].ports[0]',
        ports=[{"containerPort": 80}, {"containerPort": 80}],
    ),
    container(
        "a port as a text",
        ".ports[0].containerPort",
        "must be an integer",
        ports=[{"containerPort": "80"}],
    ),
    container(
        "a template's malformed amount",
        ".resources.limits.memory",
        "must be a quantity, such as 2, 500m or 4Gi; did you mean 16G?",
        resources={"limits": {"memory": "16GB"}},
    ),
    container(
        "a probe of two kinds",
        ".livenessProbe",
        "Forbidden: exec and tcpSocket are mutually exclusive; keep one of them",
        livenessProbe={"exec": {"command": ["x"]}, "tcpSocket": {"port": 80}},
    ),
    container(
        "a probe of nothing",
        ".livenessProbe",
        "Required value: set one of exec, grpc, httpGet, tcpSocket",
        livenessProbe={"periodSeconds": 5},
    ),
    container(
        "a pull policy of a template",
        ".imagePullPolicy",
        'Unsupported value: "Sometimes": supported values: Always, IfNotPresent, Never',
        imagePullPolicy="Sometimes",
    ),
    container(
        "a template's command in one line",
        ".command",
        "must be a list",
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
        "TF_CONFIG and TFDIST_JOB are reserved; remove the variable",
        chief={"template": {"spec": {"containers": [{**MAIN, "env": [{"name": "TF_CONFIG"}]}]}}},
    ),
    pod(
        "a host name of the evaluator",
        ".evaluator.template.spec.hostname",
        "Forbidden: the controller sets it to the name in TF_CONFIG; remove it",
        evaluator={"template": {"spec": {"hostname": "a"}}},
    ),
    pod(
        "no container that trains",
        ".template.spec.containers[0].name",
        "one container must be named tensorflow, the one that trains; rename train",
        template={"spec": {"containers": [{"name": "train", "image": "x"}]}},
        without=["training"],
    ),
    pod(
        "a template without a program",
        ".training",
        "neither a program, a script nor an image is set; set training.program for the bundled trainer, "
        "training.script, or image",
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
        "must have at least 1 character",
        SHORT,
    ),
    field("a template in one line", "template", "pod.yaml", "must be an object", TYPE),
    field("a template's pod as a list", "template.spec", [], "must be an object", TYPE),
)

CASES: Final[tuple[Bad, ...]] = (*_PODS, *_CONTAINERS, *_ROLES)
