"""Broken rules between fields: every `CrossFieldRule` of the models is broken here at least once."""

from typing import Any, Final

from support.bad_manifests.case import Bad, rule
from support.factories import CHECKPOINT, TRAINING

URL: Final[dict[str, Any]] = {"directory": "gs://bucket/ckpt"}
EVALUATE: Final[dict[str, Any]] = {"task": "Evaluate", "checkpoint": URL}
NOTHING_TO_RUN: Final = (
    "neither a program, a script nor an image is set; set training.program for the bundled trainer, training.script, "
    "or image"
)
STANDBY: Final = (
    "standby requires the bundled trainer and checkpoints; set training.program and checkpoint, or remove standby"
)
ONE_PLACE: Final = (
    "exactly one source is required; set one of archive, configMap, git, object and persistentVolumeClaim"
)


def failure(name: str, path: str, message: str, **fields: Any) -> Bad:
    return rule(
        name, f".failurePolicy.rules[0]{path}", message, failurePolicy={"rules": [{"action": "Restart", **fields}]}
    )


_TASKS: Final = (
    rule(
        "an evaluation of nothing",
        ".checkpoint",
        "task Evaluate requires a checkpoint; set checkpoint.directory",
        task="Evaluate",
    ),
    rule(
        "an evaluation that restores nothing",
        ".checkpoint.restore",
        "task Evaluate requires a checkpoint; set restore to Latest or to a path",
        task="Evaluate",
        checkpoint={**URL, "restore": "None"},
    ),
    rule(
        "an evaluation with a chief",
        ".task",
        "task Evaluate runs on the workers only; remove chief, ps and evaluator",
        **EVALUATE,
        chief={},
    ),
    rule(
        "an evaluation with an evaluator",
        ".task",
        "task Evaluate runs on the workers only; remove chief, ps and evaluator",
        **EVALUATE,
        evaluator={},
    ),
    rule(
        "an evaluation by parameter servers",
        ".strategy",
        "task Evaluate does not support parameter servers",
        **EVALUATE,
        strategy="ParameterServer",
    ),
    rule(
        "an evaluation after the evaluation",
        ".evaluation.mode",
        "task Evaluate and evaluation.mode are mutually exclusive; remove evaluation.mode",
        **EVALUATE,
        evaluation={"mode": "AfterTraining"},
    ),
    rule(
        "an ensemble in a training",
        ".evaluation.ensemble",
        "an ensemble requires task Evaluate and a program; set task and training.program, or remove ensemble",
        checkpoint=URL,
        evaluation={"ensemble": [{"checkpoint": "a"}]},
    ),
    rule(
        "an ensemble of scripts",
        ".evaluation.ensemble",
        "an ensemble requires task Evaluate and a program",
        **EVALUATE,
        training={"script": "/train.py"},
        evaluation={"ensemble": [{"checkpoint": "a"}]},
    ),
    rule(
        "nothing to run",
        ".training",
        NOTHING_TO_RUN,
        without=["training"],
    ),
    rule(
        "nothing to run but roles",
        ".training",
        NOTHING_TO_RUN,
        chief={},
        evaluator={},
        without=["training"],
    ),
    rule(
        "arguments of nothing",
        ".training",
        NOTHING_TO_RUN,
        args=[],
        without=["training"],
    ),
)

_EVALUATIONS: Final = (
    rule(
        "evaluation without checkpoints",
        ".evaluation.mode",
        "evaluation requires checkpoints; set checkpoint.directory",
        evaluation={"mode": "AfterTraining"},
    ),
    rule(
        "evaluation without an evaluator",
        ".evaluator.replicas",
        "modes Continuous and Both require an evaluator",
        evaluation={"mode": "Both"},
        checkpoint=URL,
        evaluator={"replicas": 0},
    ),
    rule(
        "replicas of an evaluation that is off",
        ".evaluation.replicas",
        "replicas requires mode AfterTraining or Both; change mode, or remove replicas",
        evaluation={"replicas": 2},
    ),
    rule(
        "early stopping without an evaluator",
        ".evaluation.earlyStopping",
        "earlyStopping requires mode Continuous or Both; change mode, or remove earlyStopping",
        evaluation={"mode": "AfterTraining", "earlyStopping": {"patience": 3}},
        checkpoint=URL,
    ),
    rule(
        "a TensorBoard of no logs",
        ".tensorBoard.logDirectory",
        "TensorBoard requires a log directory; set logDirectory, or checkpoint.directory",
        tensorBoard={},
    ),
    rule(
        "a volume for a URL",
        ".checkpoint.directory",
        "volume requires directory to be an absolute path; change directory, or remove volume",
        checkpoint={**CHECKPOINT, **URL},
    ),
)

_SCHEDULING: Final = (
    rule(
        "more replicas to be scheduled than there are",
        ".scheduling.minAvailable",
        "minAvailable exceeds the number of replicas of chief, worker and ps; reduce it, or remove it to require all "
        "of them",
        scheduling={"minAvailable": 3},
    ),
    *(
        rule(
            f"a queue with gang {gang}",
            ".scheduling.queue",
            "queue requires scheduling.gang Kueue, Volcano or KAI, or Auto, which chooses Kueue or Volcano, whichever "
            "is installed; change gang, or remove queue",
            scheduling={"gang": gang, "queue": "team-a"},
        )
        for gang in ("None", "Native", "Coscheduling")
    ),
)

_NOT_SUPPORTED: Final = "not supported by this version of TFDist; planned. Remove the field."
_PLANNED: Final = (
    rule("workers that come and go", ".elastic", _NOT_SUPPORTED, elastic={"minWorkers": 1}),
    rule("more memory after a kill", ".oomPolicy", _NOT_SUPPORTED, oomPolicy={}),
    rule(
        "a change in place",
        ".runPolicy.updateStrategy",
        f"InPlace is {_NOT_SUPPORTED}",
        runPolicy={"updateStrategy": "InPlace"},
    ),
)

_PARTS: Final = (
    rule(
        "an own TF_CONFIG",
        ".env[0].name",
        "TF_CONFIG and TFDIST_JOB are reserved; remove the variable",
        env=[{"name": "TF_CONFIG", "value": "{}"}],
    ),
    rule(
        "an own TFDIST_JOB of a role",
        ".worker.env[0].name",
        "TF_CONFIG and TFDIST_JOB are reserved; remove the variable",
        worker={"env": [{"name": "TFDIST_JOB"}]},
    ),
    rule(
        "a variable with two sources",
        ".env[0]",
        "value and valueFrom are mutually exclusive; keep one of them",
        env=[{"name": "A", "value": "", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
    ),
    rule(
        "a mount with two paths in the volume",
        ".volumeMounts[0].subPathExpr",
        "subPath and subPathExpr are mutually exclusive; keep one of them",
        volumes=[{"name": "v", "emptyDir": {}}],
        volumeMounts=[{"name": "v", "mountPath": "/v", "subPath": "a", "subPathExpr": "b"}],
    ),
    rule("code from nowhere", ".training.source", ONE_PLACE, training={**TRAINING, "source": {}}),
    rule(
        "parts of an archive without their hash",
        ".training.source.archive.sha256",
        "an archive of several parts needs sha256, the hash of all parts together",
        training={**TRAINING, "source": {"archive": {"name": "code", "parts": 2}}},
    ),
    rule(
        "code from two places",
        ".training.source",
        ONE_PLACE,
        training={**TRAINING, "source": {"configMap": {"name": "a"}, "persistentVolumeClaim": {"claimName": "b"}}},
    ),
    failure(
        "a rule that success fails",
        ".onExitCodes.values",
        "exit code 0 is not a failure; remove it",
        onExitCodes={"operator": "In", "values": [1, 0]},
    ),
    failure(
        "a rule that matches everything",
        "",
        "a rule requires a criterion; set onExitCodes, onPodConditions or onMessagePattern",
    ),
)

_STANDBY: Final = (
    rule(
        "a reserve of programs that could not go on",
        ".runPolicy.standby",
        STANDBY,
        runPolicy={"standby": True},
    ),
    rule(
        "a reserve of scripts",
        ".runPolicy.standby",
        STANDBY,
        training={"script": "team.train"},
        checkpoint=URL,
        runPolicy={"standby": True},
    ),
    rule(
        "a reserve of programs of the author's",
        ".runPolicy.standby",
        "standby requires a strategy whose replicas restart together",
        strategy="Custom",
        checkpoint=URL,
        runPolicy={"standby": True},
    ),
)

CASES: Final[tuple[Bad, ...]] = (*_STANDBY, *_TASKS, *_EVALUATIONS, *_SCHEDULING, *_PLANNED, *_PARTS)
