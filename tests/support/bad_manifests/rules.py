"""Broken rules between fields: every `Check` of the models is broken here at least once."""

import dataclasses
from typing import Any, Final

from support.bad_manifests.case import Bad, rule
from support.factories import CHECKPOINT

TRAINING: Final = {"program": "image_classification"}
URL: Final[dict[str, Any]] = {"directory": "gs://bucket/ckpt"}
PS: Final[dict[str, Any]] = {"strategy": "ParameterServer", "chief": {}, "ps": {}}
EVALUATE: Final[dict[str, Any]] = {"task": "Evaluate", "checkpoint": URL}
ONE_PLACE: Final = "code comes from one place: set exactly one of configMap, git and persistentVolumeClaim"


def failure(name: str, path: str, message: str, **fields: Any) -> Bad:
    return rule(
        name, f".failurePolicy.rules[0]{path}", message, failurePolicy={"rules": [{"action": "Restart", **fields}]}
    )


_ROLES: Final = (
    rule(
        "parameter servers beside mirrored workers",
        ".ps",
        "parameter servers need strategy ParameterServer or Custom",
        ps={},
    ),
    rule(
        "no parameter server",
        ".ps",
        "strategy ParameterServer needs at least one parameter server: add ps",
        strategy="ParameterServer",
        chief={},
    ),
    rule(
        "parameter servers without workers",
        ".worker",
        "strategy ParameterServer needs at least one worker",
        **PS,
        without=["worker"],
    ),
    rule(
        "parameter servers without a chief",
        ".chief",
        "strategy ParameterServer needs a chief",
        strategy="ParameterServer",
        ps={},
    ),
    rule(
        "parameter servers with a chief of no replica",
        ".chief",
        "strategy ParameterServer needs a chief",
        strategy="ParameterServer",
        ps={},
        chief={"replicas": 0},
    ),
    rule(
        "one device, two workers",
        ".worker.replicas",
        "strategies OneDevice and Mirrored run one replica",
        strategy="OneDevice",
    ),
    rule(
        "one device, chief and worker",
        ".worker.replicas",
        "strategies OneDevice and Mirrored run one replica",
        strategy="OneDevice",
        chief={},
        worker={},
    ),
    rule(
        "one machine, two workers",
        ".worker.replicas",
        "strategies OneDevice and Mirrored run one replica",
        strategy="Mirrored",
    ),
)

_TASKS: Final = (
    rule(
        "an evaluation of nothing",
        ".checkpoint",
        "task Evaluate restores a checkpoint: set checkpoint.directory",
        task="Evaluate",
    ),
    rule(
        "an evaluation that restores nothing",
        ".checkpoint.restore",
        "task Evaluate needs a checkpoint to evaluate",
        task="Evaluate",
        checkpoint={**URL, "restore": "None"},
    ),
    rule("an evaluation with a chief", ".task", "task Evaluate runs on the workers alone", **EVALUATE, chief={}),
    rule(
        "an evaluation with an evaluator", ".task", "task Evaluate runs on the workers alone", **EVALUATE, evaluator={}
    ),
    rule(
        "an evaluation by parameter servers",
        ".strategy",
        "task Evaluate has no parameter servers: take strategy MultiWorkerMirrored",
        **EVALUATE,
        strategy="ParameterServer",
    ),
    rule(
        "an evaluation after the evaluation",
        ".evaluation.mode",
        "task Evaluate is the evaluation: remove evaluation.mode",
        **EVALUATE,
        evaluation={"mode": "AfterTraining"},
    ),
    rule("nothing to run", ".training", "nothing to run: set training.program", without=["training"]),
    rule(
        "nothing to run but roles",
        ".training",
        "nothing to run: set training.program",
        chief={},
        evaluator={},
        without=["training"],
    ),
    rule("arguments of nothing", ".training", "nothing to run: set training.program", args=[], without=["training"]),
)

_EVALUATIONS: Final = (
    rule(
        "evaluation without checkpoints",
        ".evaluation.mode",
        "evaluation restores a checkpoint",
        evaluation={"mode": "AfterTraining"},
    ),
    rule(
        "evaluation without an evaluator",
        ".evaluator.replicas",
        "evaluation beside training needs the evaluator",
        evaluation={"mode": "Both"},
        checkpoint=URL,
        evaluator={"replicas": 0},
    ),
    rule(
        "replicas of an evaluation that is off",
        ".evaluation.replicas",
        "only evaluation after training runs on several replicas",
        evaluation={"replicas": 2},
    ),
    rule(
        "early stopping without an evaluator",
        ".evaluation.earlyStopping",
        "the evaluator beside training decides when to stop early",
        evaluation={"mode": "AfterTraining", "earlyStopping": {"patience": 3}},
        checkpoint=URL,
    ),
    rule(
        "a TensorBoard of no logs",
        ".tensorBoard.logDirectory",
        "TensorBoard needs to know where the logs are",
        tensorBoard={},
    ),
    rule(
        "a volume for a URL", ".checkpoint.directory", "a volume is mounted at a path", checkpoint={**CHECKPOINT, **URL}
    ),
)

LEAST_ABOVE_MOST: Final = dataclasses.replace(
    rule(
        "a least above the most",
        ".elastic.minWorkers",
        "minWorkers is more than maxWorkers",
        elastic={"minWorkers": 3, "maxWorkers": 1},
        worker={"replicas": 3},
    ),
    also=("spec.elastic.maxWorkers",),
)
_SIZES: Final = (
    rule(
        "elastic on one device",
        ".elastic",
        "only workers that train together come and go",
        strategy="OneDevice",
        worker={},
        elastic={},
    ),
    rule(
        "fewer workers than the least",
        ".elastic.minWorkers",
        "worker.replicas is less than minWorkers",
        elastic={"minWorkers": 3},
    ),
    rule(
        "more workers than the most",
        ".elastic.maxWorkers",
        "worker.replicas is more than maxWorkers",
        elastic={"maxWorkers": 1},
    ),
    LEAST_ABOVE_MOST,
    rule("elastic without workers", ".elastic", "elastic is about workers", elastic={}, chief={}, without=["worker"]),
    rule(
        "a gang larger than the job",
        ".scheduling.minAvailable",
        "minAvailable is more than the gang has replicas",
        scheduling={"minAvailable": 3},
    ),
    rule(
        "a gang that counts the evaluator",
        ".scheduling.minAvailable",
        "minAvailable is more than the gang has replicas",
        scheduling={"minAvailable": 4},
        chief={},
        evaluator={},
    ),
    rule(
        "a queue of a scheduler without queues",
        ".scheduling.queue",
        "only Kueue and Volcano have queues",
        scheduling={"queue": "a", "gang": "None"},
    ),
)

_PARTS: Final = (
    rule(
        "an own TF_CONFIG",
        ".env[0].name",
        "TF_CONFIG and TFDIST_JOB are generated for each replica",
        env=[{"name": "TF_CONFIG", "value": "{}"}],
    ),
    rule(
        "an own TFDIST_JOB of a role",
        ".worker.env[0].name",
        "TF_CONFIG and TFDIST_JOB are generated",
        worker={"env": [{"name": "TFDIST_JOB"}]},
    ),
    rule(
        "a variable with two sources",
        ".env[0]",
        "a variable has one source: keep value or valueFrom",
        env=[{"name": "A", "value": "", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
    ),
    rule(
        "a mount with two paths in the volume",
        ".volumeMounts[0].subPathExpr",
        "a mount has one path inside the volume",
        volumes=[{"name": "v", "emptyDir": {}}],
        volumeMounts=[{"name": "v", "mountPath": "/v", "subPath": "a", "subPathExpr": "b"}],
    ),
    rule("code from nowhere", ".training.source", ONE_PLACE, training={**TRAINING, "source": {}}),
    rule(
        "code from two places",
        ".training.source",
        ONE_PLACE,
        training={**TRAINING, "source": {"configMap": {"name": "a"}, "persistentVolumeClaim": {"claimName": "b"}}},
    ),
    failure(
        "a rule that success fails",
        ".onExitCodes.values",
        "exit code 0 is success and never a failure",
        onExitCodes={"operator": "In", "values": [1, 0]},
    ),
    failure("a rule that matches everything", "", "a rule needs something to match"),
)

_STANDBY: Final = (
    rule(
        "a reserve of programs that could not go on",
        ".runPolicy.standby",
        "a program in reserve is one of the bundled trainer, which goes on from a checkpoint",
        runPolicy={"standby": True},
    ),
    rule(
        "a reserve of programs of the author's",
        ".runPolicy.standby",
        "programs in reserve go on together",
        strategy="Custom",
        checkpoint=URL,
        runPolicy={"standby": True},
    ),
)

CASES: Final[tuple[Bad, ...]] = (*_STANDBY, *_ROLES, *_TASKS, *_EVALUATIONS, *_SIZES, *_PARTS)
