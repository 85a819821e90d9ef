"""Errors in `training` of the bundled programs, in its source, and in what only the merged pod shows."""

from typing import Any, Final

from support.bad_manifests.case import Bad, pod, rule
from support.factories import CHECKPOINT, TRAINING

DATA: Final = {"train": "/data/train.csv", "eval": "/data/eval.csv"}
CLAIM: Final = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
OWN: Final = {"program": "mine:Line"}
CONFIG: Final = ".training.config"
REPOSITORY: Final = (
    "must be the URL of a server (https, ssh, git) or user@host:path, without credentials; send other code by "
    "tfdist submit --code"
)
EITHER: Final = (
    "exactly one of program and script is required; set program for the bundled trainer, or script for a script"
)


def config(name: str, path: str, message: str, **fields: Any) -> Bad:
    """Return a manifest with an error in the configuration of a bundled program."""
    return pod(name, f"{CONFIG}.{path}", message, training={**TRAINING, "config": {"data": DATA} | fields})


def table(name: str, path: str, message: str, **fields: Any) -> Bad:
    """Return a manifest with an error in the configuration of the program `tabular`."""
    training = {"program": "tabular", "config": {"data": DATA} | fields}
    return pod(name, f"{CONFIG}.{path}", message, training=training)


def port(name: str, number: int, message: str, **spec: Any) -> Bad:
    main = {"name": "tensorflow", "ports": [{"name": "tfdist-port", "containerPort": number}]}
    path = ".template.spec.containers[0].ports[0].containerPort"
    return pod(name, path, message, template={"spec": {"containers": [main]}}, **spec)


def git(name: str, field: str, message: str, **source: Any) -> Bad:
    code = {"git": {"repository": "https://h/a.git"} | source}
    return rule(name, f".training.source.git.{field}", message, training={"program": "a:B", "source": code})


_PROGRAMS: Final = (
    pod(
        "a program with a typo",
        ".training.program",
        'Unsupported value: "image_clasification": supported values',
        training={"program": "image_clasification"},
    ),
    pod(
        "an unknown program",
        ".training.program",
        'Unsupported value: "resnet50": supported values',
        training={"program": "resnet50"},
    ),
    pod("a program without data", f"{CONFIG}.data", "Required value", training={"program": "tabular"}),
    config("words for epochs", "epochs", "must be an integer", epochs="many"),
    config("negative epochs", "epochs", "must be at least 1", epochs=-3),
    config("a typo in a setting", "epoch", "unknown field; did you mean epochs?", epoch=3),
    config(
        "a setting of another program", "hiddenUnits", "unknown field; see docs/reference/trainer.md", hiddenUnits=[1]
    ),
    config(
        "two ends of training",
        "steps",
        "epochs and steps are mutually exclusive; keep one of them",
        epochs=1,
        steps=100,
    ),
    config(
        "two sizes of batches",
        "batchSizePerReplica",
        "globalBatchSize and batchSizePerReplica are mutually exclusive; keep one of them",
        batchSizePerReplica=1,
        globalBatchSize=2,
    ),
    config(
        "an unknown metric",
        "metrics[1]",
        'Unsupported value: "acuracy": supported values: accuracy, top_<k>, precision',
        metrics=["auc", "acuracy"],
    ),
    config(
        "a metric twice", "metrics[1]", 'Duplicate value: "auc": metrics[0] has this metric too', metrics=["auc"] * 2
    ),
    config(
        "a decay without an end",
        "optimizer.decaySteps",
        "decay Cosine requires decaySteps, greater than warmupSteps",
        optimizer={"decay": "Cosine"},
    ),
    config(
        "momentum of adam",
        "optimizer.momentum",
        "only sgd has momentum; the optimizer is adam",
        optimizer={"momentum": 0.9},
    ),
    config(
        "a pattern for each worker and one for all",
        "data.train",
        "only some patterns have {worker}; set it in all of them or in none",
        data={**DATA, "train": ["/data/{worker}.csv", "/data/more.csv"]},
    ),
    table("no column", "numeric", "no column is set; set at least one in numeric or categorical"),
    table(
        "a column of two kinds",
        "categorical.a",
        'Duplicate value: "a": numeric.a has this column too',
        numeric=["a"],
        categorical={"a": None},
    ),
    table(
        "a column without its mean",
        "normalize.b",
        "Required value: the mean and deviation of this column",
        classes=2,
        numeric=["a", "b"],
        normalize={"a": {"mean": 0, "deviation": 1}},
    ),
    config(
        "a batch that the replicas cannot share",
        "globalBatchSize",
        "Invalid value: 33: must be a multiple of 2, the number of replicas; change either, or set batchSizePerReplica",
        globalBatchSize=33,
    ),
    config(
        "shards of variables without parameter servers",
        "minShardBytes",
        "Forbidden: requires strategy ParameterServer; remove it",
        minShardBytes=1024,
    ),
    pod(
        "a best checkpoint by a metric that the program does not compute",
        ".evaluation.metric",
        'Unsupported value: "auc": supported values: loss, accuracy',
        evaluation={"mode": "Continuous", "metric": "auc"},
        checkpoint=CHECKPOINT,
        evaluator={},
    ),
    config("a rate as a string", "learningRate", "must be a number", learningRate="fast"),
    config(
        "an unknown model", "model", "must be 'mlp', 'cnn', 'resnet' or a string that matches \\.keras$", model="vgg"
    ),
    config("a shape of two", "imageShape[2]", "Required value", imageShape=[28, 28]),
    config("a typo below", "data.trian", "unknown field; did you mean train?", data={**DATA, "trian": "/d"}),
    config(
        "nothing to train on",
        "data.train",
        "Required value: the data to train on; set a pattern of files, such as /data/*.csv",
        data={"eval": "/d"},
    ),
    pod(
        "nothing to evaluate on",
        f"{CONFIG}.data.eval",
        "Required value: the data to evaluate on; set a pattern of files, such as /data/*.csv",
        training={"program": "image_classification", "config": {"data": {"train": "/data/train.csv"}}},
        evaluation={"mode": "AfterTraining"},
        checkpoint=CHECKPOINT,
    ),
)

_SOURCES: Final = (
    git(
        "a repository of the pod",
        "repository",
        REPOSITORY,
        repository="file:///etc",
    ),
    git(
        "a repository that is an option",
        "repository",
        REPOSITORY,
        repository="-o@host:path",
    ),
    git(
        "a token in the URL of a repository",
        "repository",
        REPOSITORY,
        repository="https://ghp_0123456789@github.com/o/r",
    ),
    git(
        "a password in the URL of a repository",
        "repository",
        REPOSITORY,
        repository="ssh://git:s3cr3t@github.com/o/r",
    ),
    git(
        "a folder outside of the repository",
        "directory",
        "must be a path within the source, without ..",
        directory="a/../../etc",
    ),
    rule(
        "a folder outside of the claim",
        ".training.source.persistentVolumeClaim.directory",
        "must be a path within the source, without ..",
        training={**OWN, "source": {"persistentVolumeClaim": {"claimName": "code", "directory": ".."}}},
    ),
)

_SCRIPT: Final = {"script": "team.train"}
_SCRIPT_RUNS: Final = "Forbidden: the container runs training.script; remove {} and set training.args, or remove script"

_SCRIPTS: Final = (
    rule("training of nothing", ".training", EITHER, training={}),
    rule("a program and a script", ".training", EITHER, training={**TRAINING, "script": "/code/train.py"}),
    rule(
        "arguments of a program",
        ".training.args",
        "args requires script; set the options of a program in config, or remove args",
        training={**TRAINING, "args": []},
    ),
    rule(
        "settings of a script",
        ".training.config",
        "config requires program; set the options of a script in args, or remove config",
        training={"script": "/code/train.py", "config": {"epochs": 3}},
    ),
    rule(
        "a script that is nowhere",
        ".training.script",
        "a relative path requires source; set source, or the absolute path of the file in the image",
        training={"script": "train.py"},
    ),
    rule(
        "packages without a source",
        ".training.requirements",
        "requirements requires source, where the file is; set source, or remove requirements",
        training={"script": "/code/train.py", "requirements": "requirements.txt"},
    ),
    rule(
        "requirements outside of the source",
        ".training.requirements",
        "must be a path within the source, without ..",
        training={
            "script": "train.py",
            "source": {"configMap": {"name": "code"}},
            "requirements": "../requirements.txt",
        },
    ),
    rule(
        "a script outside of its source",
        ".training.script",
        "must be a path within the source, without ..",
        training={"script": "a/../../train.py", "source": {"configMap": {"name": "code"}}},
    ),
    pod("a script and a command", ".command", _SCRIPT_RUNS.format("command"), training=_SCRIPT, command=["python"]),
    pod(
        "a script and arguments of a role",
        ".worker.args",
        _SCRIPT_RUNS.format("args"),
        training=_SCRIPT,
        worker={"args": ["--epochs", "3"]},
    ),
    pod(
        "a script and a command in the template",
        ".template.spec.containers[0].command",
        _SCRIPT_RUNS.format("command"),
        training=_SCRIPT,
        template={"spec": {"containers": [{"name": "tensorflow", "command": ["python"]}]}},
    ),
)

_PODS: Final = (
    pod(
        "an init container called as the one that trains",
        ".template.spec.initContainers[0].name",
        'Duplicate value: "tensorflow": a container of the pod has this name; use another name',
        template={"spec": {"initContainers": [{"name": "tensorflow", "image": "fetch:1"}]}},
    ),
    pod(
        "an init container called as a container of the job",
        ".worker.template.spec.initContainers[0].name",
        'Duplicate value: "log": a container of the pod has this name; use another name',
        template={"spec": {"containers": [{"name": "log", "image": "log:1"}]}},
        worker={"template": {"spec": {"initContainers": [{"name": "log", "image": "log:1"}]}}},
    ),
    pod(
        "a folder outside of the volume",
        ".volumeMounts[0].subPath",
        "must be a relative path within the volume, without ..",
        volumes=[CLAIM],
        volumeMounts=[{"name": "data", "mountPath": "/data", "subPath": "../../../etc"}],
    ),
    pod(
        "a folder outside of the volume of a sidecar",
        ".template.spec.containers[0].volumeMounts[0].subPathExpr",
        "must be a relative path within the volume, without ..",
        volumes=[CLAIM],
        template={
            "spec": {
                "containers": [
                    {
                        "name": "log",
                        "image": "log:1",
                        "volumeMounts": [{"name": "data", "mountPath": "/data", "subPathExpr": "/$(HOST)"}],
                    }
                ]
            }
        },
    ),
    port("TensorFlow at the port of the report", 8790, "port 8790 is used by the progress report; use another port"),
    port("TensorFlow at the port of the launcher", 8791, "port 8791 is used by the launcher; use another port"),
    port(
        "a standby process at the port of the report",
        8789,
        "port 8790 is used by the progress report (8789 and the next",
        runPolicy={"standby": True},
        checkpoint=CHECKPOINT,
    ),
    port(
        "a standby process at no port",
        65535,
        "must be at most 65535 (65535 and the next port are used, the latter by the standby process)",
        runPolicy={"standby": True},
        checkpoint=CHECKPOINT,
    ),
)

CASES: Final[tuple[Bad, ...]] = (*_PROGRAMS, *_SOURCES, *_SCRIPTS, *_PODS)
