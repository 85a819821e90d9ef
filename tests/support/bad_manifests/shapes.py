"""Manifests of a wrong shape: other kinds, metadata, fields that do not exist, are empty, absent or of another type."""

from typing import Any, Final

from support.bad_manifests.case import UNKNOWN, Bad, field, job

LONG_NAME: Final = "metadata.name must be a DNS label of at most 45 characters"
EMPTY: Final = "empty, which counts as absent: "


def top(title: str, says: str, server: str | None, /, **changes: Any) -> Bad:
    """Return a job of which other top-level fields are changed than the specification."""
    return Bad(title, job() | changes, says, server)


def meta(title: str, says: str, server: str | None, /, **changes: Any) -> Bad:
    made = job()
    made["metadata"] |= changes
    return Bad(title, made, says, server)


def nameless() -> Bad:
    made = job()
    del made["metadata"]["name"]
    return Bad("no name", made, "metadata.name: required, and absent", "name or generateName is required")


def unknown(name: str, path: str, value: Any, says: str, **spec: Any) -> Bad:
    return field(name, path, value, f"unknown field; {says}", UNKNOWN, **spec)


def null(name: str, path: str, remedy: str) -> Bad:
    """Return a job with an empty field: the API server takes it for absent, and writes the default if there is one."""
    made = field(name, path, None, f"{EMPTY}{remedy}")
    return Bad(made.name, made.manifest, made.says, mended=True)


_IDENTITY: Final = (
    top(
        "a version that does not exist",
        "apiVersion: did you mean tfdist.dev/v1? write 'tfdist.dev/v1'; got 'tfdist.dev/v1beta1'",
        "cannot be handled as a TFDistJob",
        apiVersion="tfdist.dev/v1beta1",
    ),
    top(
        "another kind",
        "kind: did you mean TFDistJob? write 'TFDistJob'; got 'TFJob'",
        "must be TFDistJob",
        kind="TFJob",
    ),
    top(
        "a kind in small letters",
        "kind: did you mean TFDistJob? write 'TFDistJob'; got 'tfdistjob'",
        "must be TFDistJob",
        kind="tfdistjob",
    ),
    top("the specification as a list", "spec: write a map of fields; got []", 'spec: Invalid value: "array"', spec=[]),
    top(
        "a specification beside the other",
        "specs: unknown field; did you mean spec?",
        'unknown field "specs"',
        specs={},
    ),
    top(
        "a field of Deployments at the top",
        "replicas: unknown field; `kubectl explain tfdistjob` lists",
        'unknown field "replicas"',
        replicas=2,
    ),
    top("an empty specification", "spec: write a map of fields; got nothing", "spec: Required value", spec=None),
    nameless(),
    meta(
        "a name too long for its pods", "metadata.name: write at most 45 characters; got 46", LONG_NAME, name="x" * 46
    ),
    meta(
        "a name with a capital",
        "metadata.name: write small letters, digits and dashes, a letter first",
        "a lowercase RFC 1123",
        name="Fashion",
    ),
    meta(
        "a name that begins with a digit",
        "metadata.name: write small letters, digits and dashes, a letter",
        LONG_NAME,
        name="1st",
    ),
    meta(
        "a name with a dot",
        "metadata.name: write small letters, digits and dashes, a letter first",
        LONG_NAME,
        name="a.b",
    ),
    meta("a name that ends with a dash", "metadata.name: write small letters", "a lowercase RFC 1123", name="fashion-"),
    meta(
        "labels with a typo",
        "metadata.lables: unknown field; did you mean labels?",
        'unknown field "metadata.lables"',
        lables={},
    ),
    meta(
        "the number of replicas in the metadata",
        "metadata.replicas: unknown field; there are",
        'unknown field "metadata.replicas"',
        replicas=2,
    ),
    meta(
        "a label that is a number",
        "metadata.labels.tier: write text, numbers and true or false in quotes; got 1",
        "cannot unmarshal number",
        labels={"tier": 1},
    ),
    meta(
        "an annotation that is a boolean",
        "metadata.annotations.debug: write text, numbers",
        "cannot unmarshal bool",
        annotations={"debug": True},
    ),
    meta(
        "labels as a list", "metadata.labels: write a map of texts; got ['a']", "cannot unmarshal array", labels=["a"]
    ),
    meta(
        "a label with a space",
        "metadata.labels.team: write letters, digits",
        "metadata.labels: Invalid value",
        labels={"team": "a b"},
    ),
    meta(
        "a label whose key has two slashes",
        "metadata.labels['a/b/c']: the key is not well-formed",
        "metadata.labels: Invalid value",
        labels={"a/b/c": "d"},
    ),
    meta(
        "an annotation without a key",
        "metadata.annotations['']: the key is not well-formed",
        "metadata.annotations: Invalid value",
        annotations={"": "d"},
    ),
)

_UNKNOWN: Final = (
    unknown("a typo in a field", "wroker", {}, "did you mean worker?"),
    unknown("a field of TFJobs", "tfReplicaSpecs", {}, "`kubectl explain tfdistjob.spec` lists those there are"),
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
        "`kubectl explain tfdistjob.spec.training.source.git`",
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
        "unknown field (given an object); did you mean metadata?",
        UNKNOWN,
    ),
    field("a name for the pods", "template.metadata.name", "x", "a template has labels and annotations only", UNKNOWN),
    unknown("a typo in oomPolicy", "oomPolicy.memoryfactor", 2, "did you mean memoryFactor?"),
    unknown("a typo in elastic", "elastic.minworkers", 1, "did you mean minWorkers?"),
    unknown("a typo in scheduling", "scheduling.priorityClass", "a", "did you mean priorityClassName?"),
    unknown("a typo in runtime", "runtime.XLA", "On", "`kubectl explain tfdistjob.spec.runtime`"),
)

_NULLS: Final = (
    null("a chief without fields", "chief", "write {} for its defaults, or remove the line"),
    null("an evaluator without fields", "evaluator", "write {} for its defaults"),
    null("an empty image", "image", "give a value, or remove the line"),
    null("empty volumes", "volumes", "give a value"),
    null("a limit without an amount", "resources.limits.cpu", "give a value"),
    null("an empty configuration", "training.config", "give a value"),
    null("an empty checkpoint", "checkpoint", "write {}"),
    null("a template without fields", "template", "write {}"),
    null("empty limits of a run", "runPolicy", "write {}"),
    null("an empty strategy", "strategy", "give a value"),
    null("workers without a number", "worker.replicas", "give a value"),
    field(
        "a word of the command left out",
        "command[0]",
        None,
        f"{EMPTY}give a value",
        'spec.command[0]: Invalid value: "null"',
    ),
)

CASES: Final[tuple[Bad, ...]] = (*_IDENTITY, *_UNKNOWN, *_NULLS)
