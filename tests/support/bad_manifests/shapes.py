"""Manifests of a wrong shape: other kinds, metadata, fields that do not exist, are empty, absent or of another type."""

from typing import Any, Final

from support.bad_manifests.case import UNKNOWN, Bad, field, job

LONG_NAME: Final = "metadata.name must be a DNS label of at most 45 characters"
NULL: Final = "must not be null; "


def top(title: str, message: str, server: str | None, /, **changes: Any) -> Bad:
    """Return a job with changed top-level fields other than the specification."""
    return Bad(title, job() | changes, message, server)


def meta(title: str, message: str, server: str | None, /, **changes: Any) -> Bad:
    document = job()
    document["metadata"] |= changes
    return Bad(title, document, message, server)


def nameless() -> Bad:
    document = job()
    del document["metadata"]["name"]
    return Bad("no name", document, "metadata.name: Required value", "name or generateName is required")


def unknown(name: str, path: str, value: Any, message: str, **spec: Any) -> Bad:
    return field(name, path, value, f"unknown field; {message}", UNKNOWN, **spec)


def null(name: str, path: str, remedy: str) -> Bad:
    """Return a job with an empty field: the API server takes it for absent, and writes the default if there is one."""
    bad = field(name, path, None, f"{NULL}{remedy}")
    return Bad(bad.name, bad.manifest, bad.expected, dropped=True)


_IDENTITY: Final = (
    top(
        "a version that does not exist",
        'apiVersion: Unsupported value: "tfdist.dev/v1beta1"',
        "cannot be handled as a TFDistJob",
        apiVersion="tfdist.dev/v1beta1",
    ),
    top(
        "another kind",
        'kind: Unsupported value: "TFJob": supported values: TFDistJob; did you mean TFDistJob?',
        "must be TFDistJob",
        kind="TFJob",
    ),
    top(
        "a kind in small letters",
        'kind: Unsupported value: "tfdistjob": supported values: TFDistJob; did you mean TFDistJob?',
        "must be TFDistJob",
        kind="tfdistjob",
    ),
    top("the specification as a list", "spec: must be an object", 'spec: Invalid value: "array"', spec=[]),
    top(
        "a second specification",
        "specs: unknown field; did you mean spec?",
        'unknown field "specs"',
        specs={},
    ),
    top(
        "a field of Deployments at the top",
        "replicas: unknown field; see `kubectl explain tfdistjob`",
        'unknown field "replicas"',
        replicas=2,
    ),
    top("an empty specification", "spec: must be an object", "spec: Required value", spec=None),
    nameless(),
    meta(
        "a name too long for its pods",
        "metadata.name: Too long: 46 characters: must have at most 45 characters",
        LONG_NAME,
        name="x" * 46,
    ),
    meta(
        "a name with a capital",
        "metadata.name: must be a DNS label that begins with a letter: lower case letters, digits and '-'",
        "a lowercase RFC 1123",
        name="Fashion",
    ),
    meta(
        "a name that begins with a digit",
        "metadata.name: must be a DNS label that begins with a letter: lower case letters, digits and '-'",
        LONG_NAME,
        name="1st",
    ),
    meta(
        "a name with a dot",
        "metadata.name: must be a DNS label that begins with a letter: lower case letters, digits and '-'",
        LONG_NAME,
        name="a.b",
    ),
    meta("a name that ends with a dash", "metadata.name: must be a DNS label", "a lowercase RFC 1123", name="fashion-"),
    meta(
        "labels with a typo",
        "metadata.lables: unknown field; did you mean labels?",
        'unknown field "metadata.lables"',
        lables={},
    ),
    meta(
        "the number of replicas in the metadata",
        "metadata.replicas: unknown field",
        'unknown field "metadata.replicas"',
        replicas=2,
    ),
    meta(
        "a label that is a number",
        "metadata.labels.tier: must be a string; quote numbers and booleans",
        "cannot unmarshal number",
        labels={"tier": 1},
    ),
    meta(
        "an annotation that is a boolean",
        "metadata.annotations.debug: must be a string",
        "cannot unmarshal bool",
        annotations={"debug": True},
    ),
    meta("labels as a list", "metadata.labels: must be a map of strings", "cannot unmarshal array", labels=["a"]),
    meta(
        "a label with a space",
        "metadata.labels.team: must be a label value",
        "metadata.labels: Invalid value",
        labels={"team": "a b"},
    ),
    meta(
        "a label whose key has two slashes",
        "metadata.labels['a/b/c']: the key must be a qualified name",
        "metadata.labels: Invalid value",
        labels={"a/b/c": "d"},
    ),
    meta(
        "an annotation without a key",
        "metadata.annotations['']: the key must be a qualified name",
        "metadata.annotations: Invalid value",
        annotations={"": "d"},
    ),
)

_UNKNOWN: Final = (
    unknown("a typo in a field", "wroker", {}, "did you mean worker?"),
    unknown("a field of TFJobs", "tfReplicaSpecs", {}, "see `kubectl explain tfdistjob.spec`"),
    unknown("a typo in a role", "worker.replica", 2, "did you mean replicas?"),
    unknown("a field in snake case", "training.config_map", {}, "did you mean config?"),
    unknown(
        "a typo in a source",
        "training.source.gitt",
        {},
        "did you mean git?",
        training={"program": "a:B", "source": {"git": {"repository": "https://h/a"}}},
    ),
    unknown(
        "a branch",
        "training.source.git.branch",
        "main",
        "see `kubectl explain tfdistjob.spec.training.source.git`",
        training={"program": "a:B", "source": {"git": {"repository": "https://h/a"}}},
    ),
    unknown(
        "a typo in checkpoint",
        "checkpoint.everySecond",
        3,
        "did you mean everySeconds?",
        checkpoint={"directory": "gs://b/c"},
    ),
    unknown("a typo in evaluation", "evaluation.metrics", "loss", "did you mean metric?"),
    unknown(
        "a typo in tensorBoard",
        "tensorBoard.logDir",
        "/l",
        "did you mean logDirectory?",
        tensorBoard={"logDirectory": "/l"},
    ),
    unknown("a typo in the limits of a run", "runPolicy.backofLimit", 3, "did you mean backoffLimit?"),
    unknown(
        "a typo in the failure policy",
        "failurePolicy.rule",
        [],
        "did you mean rules?",
        failurePolicy={"rules": [{"action": "Ignore", "onMessagePattern": "x"}]},
    ),
    unknown(
        "a typo in a rule",
        "failurePolicy.rules[0].onExitCode",
        {},
        "did you mean onExitCodes?",
        failurePolicy={"rules": [{"action": "Ignore", "onMessagePattern": "x"}]},
    ),
    unknown("a typo in a variable", "env[0].vlaue", "x", "did you mean value?", env=[{"name": "A"}]),
    unknown(
        "a typo in a mount",
        "volumeMounts[0].subpath",
        "x",
        "did you mean subPath?",
        volumes=[{"name": "v", "emptyDir": {}}],
        volumeMounts=[{"name": "v", "mountPath": "/v"}],
    ),
    unknown("a typo in resources", "resources.limit", {}, "did you mean limits?"),
    field(
        "a typo in a template",
        "template.metdata",
        {},
        "unknown field; did you mean metadata?",
        UNKNOWN,
    ),
    field(
        "a name for the pods",
        "template.metadata.name",
        "x",
        "Forbidden: a template has only labels and annotations; remove it",
        UNKNOWN,
    ),
    unknown("a typo in scheduling", "scheduling.priorityClass", "a", "did you mean priorityClassName?"),
    unknown("a typo in runtime", "runtime.XLA", "On", "did you mean xla?"),
)

_NULLS: Final = (
    null("a chief without fields", "chief", "use {} for defaults, or remove the field"),
    null("an evaluator without fields", "evaluator", "use {} for defaults"),
    null("an empty image", "image", "set a value, or remove the field"),
    null("empty volumes", "volumes", "set a value"),
    null("a limit without an amount", "resources.limits.cpu", "set a value"),
    null("an empty configuration", "training.config", "set a value"),
    null("an empty checkpoint", "checkpoint", "use {}"),
    null("a template without fields", "template", "use {}"),
    null("empty limits of a run", "runPolicy", "use {}"),
    null("an empty strategy", "strategy", "set a value"),
    null("workers without a number", "worker.replicas", "set a value"),
    field(
        "a word of the command left out",
        "command[0]",
        None,
        f"{NULL}set a value",
        'spec.command[0]: Invalid value: "null"',
    ),
)

CASES: Final[tuple[Bad, ...]] = (*_IDENTITY, *_UNKNOWN, *_NULLS)
