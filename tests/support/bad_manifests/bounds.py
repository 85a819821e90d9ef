"""Values out of bounds in the job, its training, its checkpoints and its evaluation, field by field."""

from typing import Any, Final

from support.bad_manifests.case import (
    AT_LEAST,
    AT_MOST,
    ENUM,
    FEW,
    LONG,
    MANY,
    PATTERN,
    SHORT,
    Bad,
    field,
)
from support.factories import CHECKPOINT

AFTER: Final[dict[str, Any]] = {"evaluation": {"mode": "AfterTraining"}, "checkpoint": CHECKPOINT}
URL: Final[dict[str, Any]] = {"checkpoint": {"directory": "gs://bucket/ckpt"}}


def code(**source: Any) -> dict[str, Any]:
    return {"training": {"program": "team:Train", "source": source}}


def git(**fields: Any) -> dict[str, Any]:
    return code(git={"repository": "https://host/team/code.git", **fields})


_JOB: Final = (
    field(
        "a strategy with a typo",
        "strategy",
        "Mirored",
        'Unsupported value: "Mirored": supported values',
        ENUM,
    ),
    field(
        "a task in small letters",
        "task",
        "train",
        'Unsupported value: "train": supported values: Train, Evaluate; did you mean Train?',
        ENUM,
    ),
    field(
        "an unknown success policy",
        "successPolicy",
        "Anyone",
        'Unsupported value: "Anyone": supported values: Chief, AllWorkers',
        ENUM,
    ),
    field(
        "a network policy as a boolean",
        "networkPolicy",
        True,
        "Unsupported value: true: supported values: Enabled, Disabled",
        ENUM,
    ),
    field("an image without a name", "image", "", "must have at least 1 character", SHORT),
    field(
        "an image with a novel for a name",
        "image",
        "x" * 1025,
        "Too long: 1025 characters: must have at most 1024 characters",
        LONG,
    ),
    field(
        "a pull policy that does not exist",
        "imagePullPolicy",
        "Sometimes",
        'Unsupported value: "Sometimes": supported values: Always, IfNotPresent, Never',
        ENUM,
    ),
    field("a command without a word", "command", [], "must have at least 1 item; add one or remove the field", FEW),
    field("a command of too many words", "command", ["x"] * 257, "Too many: 257: must have at most 256 items", MANY),
    field(
        "a word of the command that is too long",
        "command[0]",
        "x" * 4097,
        "Too long: 4097 characters: must have at most 4096 characters",
        LONG,
    ),
    field("too many arguments", "args", ["x"] * 257, "Too many: 257: must have at most 256 items", MANY),
    field(
        "a folder that is too long",
        "workingDir",
        "/" * 4097,
        "Too long: 4097 characters: must have at most 4096 characters",
        LONG,
    ),
)

_TRAINING: Final = (
    field("a program without a name", "training.program", "", "must have at least 1 character", SHORT),
    field(
        "a path for a program",
        "training.program",
        "./train.py",
        "must be the name of a built-in program, or package.module:Class",
        PATTERN,
    ),
    field("a script without a name", "training.script", "", "must have at least 1 character", SHORT, training={}),
    field(
        "a script in another language",
        "training.script",
        "./train",
        "must be a file that ends with .py, or a module such as package.train",
        PATTERN,
        training={},
    ),
    field(
        "too many arguments of a script",
        "training.args",
        ["x"] * 257,
        "Too many: 257: must have at most 256 items",
        MANY,
        training={"script": "team.train"},
    ),
    field("a ConfigMap of an odd name", "training.source.configMap.name", "My_Code", "must be a DNS", PATTERN),
    field("an archive of an odd name", "training.source.archive.name", "My_Code", "must be a DNS", PATTERN),
    field(
        "a claim of an odd name",
        "training.source.persistentVolumeClaim.claimName",
        "C!",
        "must be a DNS subdomain: lower case letters, digits, '-' and '.', with a letter or digit first and last",
        PATTERN,
    ),
    field(
        "a folder of a claim from its root",
        "training.source.persistentVolumeClaim.directory",
        "/code",
        "must be a relative path",
        PATTERN,
        **code(persistentVolumeClaim={"claimName": "c"}),
    ),
    field(
        "a repository that is no URL",
        "training.source.git.repository",
        "team/code",
        "must be a URL (https, ssh, git) or user@host:path",
        PATTERN,
    ),
    field(
        "a revision that is an option",
        "training.source.git.revision",
        "-f",
        "must be a commit, tag or branch, without spaces and not beginning with '-'",
        PATTERN,
        **git(),
    ),
    field(
        "a revision without a name",
        "training.source.git.revision",
        "",
        "must have at least 1 character",
        SHORT,
        **git(),
    ),
    field(
        "a folder of a repository from /",
        "training.source.git.directory",
        "/",
        "must be a relative path",
        PATTERN,
        **git(),
    ),
)

_CHECKPOINT: Final = (
    field(
        "checkpoints in a relative path",
        "checkpoint.directory",
        "ckpt",
        "must be an absolute path or a URL, with no other placeholders than {name}, {namespace} and {uid}",
        PATTERN,
    ),
    field(
        "an unknown placeholder",
        "checkpoint.directory",
        "/c/{job}",
        "must be an absolute path or a URL, with no other placeholders than {name}, {namespace} and {uid}",
        PATTERN,
    ),
    field("checkpoints nowhere", "checkpoint.directory", "", "must have at least 1 character", SHORT),
    field("checkpoints after no step", "checkpoint.everySteps", 0, "must be at least 1", AT_LEAST, **URL),
    field("checkpoints after no second", "checkpoint.everySeconds", 0, "must be at least 1", AT_LEAST, **URL),
    field(
        "checkpoints of which none is kept",
        "checkpoint.keep",
        0,
        "must be at least 1",
        AT_LEAST,
        **URL,
    ),
    field(
        "more checkpoints than any disk holds",
        "checkpoint.keep",
        1001,
        "must be at most 1000",
        AT_MOST,
        **URL,
    ),
    field("a checkpoint without a name", "checkpoint.restore", "", "must have at least 1 character", SHORT, **URL),
)

_EVALUATION: Final = (
    field("a mode of evaluation with a typo", "evaluation.mode", "Continous", "did you mean Continuous?", ENUM),
    field("evaluation on no replica", "evaluation.replicas", 0, "must be at least 1", AT_LEAST, **AFTER),
    field("a metric without a name", "evaluation.metric", "", "must have at least 1 character", SHORT, **AFTER),
    field("a goal in small letters", "evaluation.goal", "minimize", "did you mean Minimize?", ENUM, **AFTER),
    field("no time to evaluate", "evaluation.deadlineSeconds", 0, "must be at least 1", AT_LEAST, **AFTER),
    field(
        "a failure that is ignored",
        "evaluation.onFailure",
        "Ignore",
        'Unsupported value: "Ignore": supported values: Warn, FailJob',
        ENUM,
        **AFTER,
    ),
    field(
        "logs in a relative path",
        "tensorBoard.logDirectory",
        "logs",
        "must be an absolute path or a URL, with no other placeholders than {name}, {namespace} and {uid}",
        PATTERN,
    ),
    field("a TensorBoard without an image", "tensorBoard.image", "", "must have at least 1 character", SHORT, **AFTER),
    field(
        "a TensorBoard gone before", "tensorBoard.ttlSecondsAfterFinished", -1, "must be at least 0", AT_LEAST, **AFTER
    ),
    field(
        "a TensorBoard that asks for less",
        "tensorBoard.resources.requests.cpu",
        "-1",
        "must be a quantity, such as 2, 500m or 16Gi; quote fractions",
        PATTERN,
        **AFTER,
    ),
    field(
        "a TensorBoard of no size",
        "tensorBoard.resources.limits.memory",
        "x",
        "must be a quantity, such as 2, 500m or 16Gi; quote fractions",
        PATTERN,
        **AFTER,
    ),
)

CASES: Final[tuple[Bad, ...]] = (*_JOB, *_TRAINING, *_CHECKPOINT, *_EVALUATION)
