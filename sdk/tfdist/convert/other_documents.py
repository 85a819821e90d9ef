"""Finds references to features of TFJobs, in other documents, that a TFDistJob does not have.

They remain as they are: selectors by labels of the training-operator, names of its Services and of its port, TFJobs
inside of other objects, and references to the resource.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from tfdist.convert.katib_kind import KIND as EXPERIMENT
from tfdist.convert.replicas import ROLES
from tfdist.convert.result import Note
from tfdist.convert.texts import Location, texts
from tfdist.convert.tfjob import API_VERSION, KIND, PORT_NAME
from tfdist.messages import join_path

PodLabels = Mapping[str, Sequence[Mapping[str, str]]]
"""Names of TFJobs, and the labels of the pod template of each of their replica types."""

_CONNECTING: Final = frozenset({"Service", "PodMonitor"})
_OPERATOR_LABEL: Final = "app.kubernetes.io/managed-by: tfdist"
_REPLACED: Final = {
    "job-name": "tfdist.dev/job",
    "job-role": "tfdist.dev/role",
    "replica-type": "tfdist.dev/role",
    "replica-index": "tfdist.dev/index",
    "operator-name": _OPERATOR_LABEL,
    "group-name": _OPERATOR_LABEL,
    "controller-name": _OPERATOR_LABEL,
}
"""Label of the training-operator without its prefix -> label of TFDist."""
_OLD_VALUES: Final = {
    "group-name": {"kubeflow.org"},
    "controller-name": {"tf-operator", "tfjob-controller"},
    "job-role": {"master"},
}
"""Labels of old versions without a prefix, and the values that distinguish them from labels of others."""

_LABEL_IN_TEXT: Final = re.compile(
    r"training\.kubeflow\.org/[\w-]+|training_kubeflow_org_\w+|\btf[-_](?:job|replica)[-_](?:name|role|type|index)\b"
)
_MANIFEST: Final = re.compile(rf"\bkind[\"']?\s*:\s*[\"']?{KIND}\b")
_GROUP: Final = API_VERSION.partition("/")[0]
_RESOURCE: Final = re.compile(
    rf"\btfjobs\b|(?:^|/){KIND}$|\bkubeflow\.org/tfjob\b|\bkubectl\b[^\n]*[ \t]tfjobs?\b|(?:^|\s)tfjob/[a-z0-9]"
)
"""The resource in rules and quotas, the kind in references, and both in commands."""
_METRIC: Final = re.compile(r"\btraining_operator_jobs_\w+")

_EMBEDDED: Final = (
    "a TFJob inside of another object is not converted: convert it as a file of its own and put the result here; "
    "success and failure conditions change too, to the conditions Succeeded and Failed of a TFDistJob"
)
_REFERS: Final = "refers to TFJobs; TFDistJobs have apiVersion tfdist.dev/v1 and the resource tfdistjobs"
_METRICS: Final = (
    "the metrics of the training-operator do not count TFDistJobs; use TFDist's metrics, whose names begin with tfdist_"
)
_STORED_TEMPLATES: Final = frozenset({"configMap", "templateSpec"})
"""Fields of `trialTemplate` that refer to a ConfigMap, today and in `v1alpha3`."""
_STORED: Final = (
    "the template of the trials is in a ConfigMap, which is not read: if it is a TFJob, write it as "
    "spec.trialTemplate.trialSpec here and convert the Experiment again; it becomes a TFDistSweep then"
)
_CLOSED: Final = (
    "whose NetworkPolicy closes their ports to pods outside of the job: write spec.networkPolicyIngress in the "
    "TFDistJob, or networkPolicy: Disabled"
)
_PORT: Final = (
    f"pods of a TFDistJob have no port {PORT_NAME}: it is tfdist-port, which is closed to pods outside of the job"
)
_SCHEDULE: Final = (
    "unchanged: it limits how late a scheduled run starts; runPolicy.startDeadlineSeconds limits how long a "
    "TFDistJob waits for its replicas"
)


def notes_on_other(document: Mapping[str, Any], jobs: PodLabels) -> list[Note]:
    """Return the notes on a document that is not a TFJob, at most one for each selector and text.

    Args:
        document: the manifest.
        jobs: the TFJobs that are converted together with it.
    """
    locations: dict[str, Location] = {}
    notes = [Note(join_path(location), message) for location, message in _findings(document, (), jobs)]
    if any(note.message == _EMBEDDED for note in notes):
        locations = {key: location for location, key in texts(document) if key == "startingDeadlineSeconds"}
    notes += [Note(join_path(location), _SCHEDULE) for location in locations.values()]
    notes += _closed_services(document, jobs)
    notes += _stored_templates(document)
    first = next((note for note in notes if note.message == _REFERS), None)
    return [note for note in notes if note.message != _REFERS or note is first]


def _stored_templates(document: Mapping[str, Any]) -> Iterator[Note]:
    """Yield a note on an Experiment whose trials are described in a ConfigMap."""
    if document.get("kind") != EXPERIMENT or not str(document.get("apiVersion")).startswith(f"{_GROUP}/"):
        return
    for location, key in texts(document.get("spec"), ("spec",)):
        if key in _STORED_TEMPLATES and location[-1] == key and "trialTemplate" in location:
            yield Note(join_path(location), _STORED)


def _closed_services(document: Mapping[str, Any], jobs: PodLabels) -> Iterator[Note]:
    """Yield a note on a Service or PodMonitor that selects pods by the template's own labels: it finds closed ports."""
    spec = document.get("spec")
    selector = spec.get("selector") if isinstance(spec, dict) and document.get("kind") in _CONNECTING else None
    labels = selector.get("matchLabels", selector) if isinstance(selector, dict) else None
    if not isinstance(labels, dict) or not labels:
        return
    for name, templates in jobs.items():
        if any(labels.items() <= pod_labels.items() for pod_labels in templates):
            yield Note("spec.selector", f"selects pods of {name}, {_CLOSED}")


def _findings(value: Any, location: Location, jobs: Collection[str]) -> Iterator[tuple[Location, str]]:
    """Yield the location and the message of each finding below `value`."""
    if isinstance(value, str):
        if message := _message_on_text(value, jobs):
            yield location, message
    elif isinstance(value, list):
        for i, item in enumerate(value):
            yield from _findings(item, (*location, i), jobs)
    elif isinstance(value, dict) and location[-2:-1] != ("metadata",):  # labels of the object itself select nothing
        if value.get("kind") == KIND:
            yield location, _EMBEDDED if "spec" in value else _REFERS
            return
        legacy = [(place, name) for place, name, values in _labels(value) if _is_legacy(name, values, jobs)]
        if legacy:
            yield (*location, *legacy[0][0]), _message_on_labels([name for _, name in legacy])
        if _gives_all_rights(value):
            yield (*location, "apiGroups"), _REFERS
        for key, item in value.items():
            if isinstance(key, str) and _RESOURCE.search(key):  # a quota
                yield (*location, key), _REFERS
            elif key not in {place[0] for place, _ in legacy}:
                yield from _findings(item, (*location, key), jobs)


def _gives_all_rights(rule: Mapping[str, Any]) -> bool:
    """Return whether a rule covers TFJobs as one of all resources of their API group."""
    groups, resources = rule.get("apiGroups"), rule.get("resources")
    return isinstance(groups, list) and isinstance(resources, list) and _GROUP in groups and "*" in resources


def _labels(selector: Mapping[str, Any]) -> Iterator[tuple[Location, str, list[Any]]]:
    """Yield location, name and values of the labels of a selector, or of any other object's entries."""
    by_label, by_expression = selector.get("matchLabels"), selector.get("matchExpressions")
    if by_label is None and by_expression is None:
        yield from (((name,), str(name), [value]) for name, value in selector.items())
    if isinstance(by_label, dict):
        yield from ((("matchLabels", name), str(name), [value]) for name, value in by_label.items())
    for i, expression in enumerate(by_expression if isinstance(by_expression, list) else ()):
        if isinstance(expression, dict):
            values = expression.get("values")
            name = str(expression.get("key", ""))
            yield ("matchExpressions", i, "key"), name, values if isinstance(values, list) else []


def _is_legacy(name: str, values: list[Any], jobs: Collection[str]) -> bool:
    """Return whether a label is one of the training-operator."""
    if _LABEL_IN_TEXT.fullmatch(name):
        return True
    legacy_values = set(jobs) if name == "job-name" else _OLD_VALUES.get(name, set())
    return any(isinstance(value, str) and value in legacy_values for value in values)


def _message_on_labels(names: list[str]) -> str:
    new = dict.fromkeys(_replacement(name) for name in names)
    predicate = f"has the label {names[0]}" if len(names) == 1 else f"has the labels {', '.join(names)}"
    return f"no pod of a TFDistJob {predicate}; select {' and '.join(new)} instead"


def _replacement(label: str) -> str:
    """Return the label of TFDist for one of the training-operator, also as Prometheus writes it."""
    bare = re.sub(r"^(training.kubeflow.org.|tf.)", "", label).replace("_", "-")
    return _REPLACED.get(bare, "tfdist.dev/job or tfdist.dev/role")


def _message_on_text(text: str, jobs: Collection[str]) -> str | None:
    """Return the message on a text that names something of the training-operator, or None."""
    if _MANIFEST.search(text):
        return _EMBEDDED
    if text == PORT_NAME:
        return _PORT
    if label := _LABEL_IN_TEXT.search(text):
        return _message_on_labels([label.group()])
    for job in jobs:
        if service := re.search(rf"\b{re.escape(job)}-(?:{'|'.join(ROLES)})-\d+\b", text):
            new = f"worker-0.{job}, ps-0.{job} and so on"
            return f"the Service {service.group()} no longer exists: replicas have the addresses {new}"
    if _METRIC.search(text):
        return _METRICS
    return _REFERS if _RESOURCE.search(text) else None
