"""Sweeps with one error each, as a table: path of the error, its message, and what is wrong with the sweep."""

import copy
from dataclasses import dataclass, field
from typing import Any

from support.factories import CHECKPOINT, TRAINING
from support.sweeps import PARAMETERS, sweep_manifest

JOB = "spec.template.spec"
RATE = PARAMETERS[0]
LIST = {"method": "List", "list": [{"learningRate": 0.1}]}
RANGE = {"name": "learningRate", "range": {"min": 0.1, "max": 1}}


def of_field(name: str, *values: Any) -> list[dict[str, Any]]:
    """Return the parameters of a sweep over one field."""
    return [{"name": "x", "field": name, "values": list(values)}]


@dataclass
class Bad:
    """A sweep with one error: its fields, those of its template, and the path and the message of the error.

    A field of the template that is `...` is removed.
    """

    path: str
    message: str
    spec: dict[str, Any] = field(default_factory=dict)
    template: dict[str, Any] = field(default_factory=dict)
    name: str = "fashion-lr"

    def __str__(self) -> str:
        return f"{self.path}: {self.message[:50]}"

    @property
    def manifest(self) -> dict[str, Any]:
        document = sweep_manifest(self.name, copy.deepcopy(self.template), **copy.deepcopy(self.spec))
        job = document["spec"]["template"]["spec"]
        document["spec"]["template"]["spec"] = {name: value for name, value in job.items() if value is not ...}
        return document


def bad_parameter(path: str, message: str, **parameter: Any) -> Bad:
    return Bad(f"spec.parameters[0]{path}", message, {"parameters": [{"name": "learningRate", **parameter}]})


def bad_target(name: str, message: str, *values: Any) -> Bad:
    return Bad("spec.parameters[0].field", message, {"parameters": of_field(name, *values)})


NO_EVALUATION = {"evaluation": ...}
NOT_COMPARED: dict[str, Any] = {
    "parameters": [{"name": "x", "env": "X"}],
    "search": {"method": "List", "list": [{"x": 1}, {"x": 2}]},
}
"""A sweep without a metric, which is valid without an evaluation."""
ASHA = {"method": "Asha", "minSteps": 10}
TWO = [
    {"name": "a", "field": "runtime", "values": [{"seed": 1}]},
    {"name": "b", "field": "runtime.seed", "values": [1]},
]

OF_THE_SWEEP = [
    Bad(
        "metadata.name",
        "at most 41 characters, because the name of a trial's job appends the number of the trial",
        name="a" * 42,
    ),
    Bad("metadata.name", "must be a DNS label that begins with a letter", name="1a"),
    Bad("spec.metrics", "unknown field; did you mean metric?", {"metrics": "auc"}),
    Bad("spec.zzz", "unknown field; see `kubectl explain tfdistsweep.spec`", {"zzz": 1}),
    Bad("spec.worker", f"unknown field; did you mean {JOB}.worker?", {"worker": {}}),
    Bad("spec.parallelism", "must be at least 1", {"parallelism": 0}),
    Bad("spec.earlyStopping.minTrials", "requires method Median", {"earlyStopping": {**ASHA, "minTrials": 3}}),
    Bad(
        "spec.metric",
        "Required value: the trials are compared by it",
        {"parameters": [RATE]},
        NO_EVALUATION,
    ),
    Bad(
        "spec.earlyStopping",
        "earlyStopping compares the trials by a metric; set metric, or remove earlyStopping",
        NOT_COMPARED | {"earlyStopping": ASHA},
        NO_EVALUATION,
    ),
    Bad("spec.targetValue", "targetValue compares the trials", NOT_COMPARED | {"targetValue": 0.5}, NO_EVALUATION),
    Bad("spec.keepBest", "keepBest compares the trials", NOT_COMPARED | {"keepBest": 2}, NO_EVALUATION),
    Bad("spec.cleanTrials", "cleanTrials compares", NOT_COMPARED | {"cleanTrials": "AllButBest"}, NO_EVALUATION),
    Bad(
        "spec.earlyStopping",
        "accuracy is known after training only, by evaluation.mode AfterTraining; use mode Continuous",
        {"earlyStopping": ASHA},
        {"evaluation": {"mode": "AfterTraining"}},
    ),
    Bad(
        "spec.earlyStopping.resume",
        "a stopped trial resumes from its checkpoint; set checkpoint",
        {"earlyStopping": {**ASHA, "resume": True}, "metric": "loss"},
        {"checkpoint": ..., "evaluation": ...},
    ),
]
OF_THE_SEARCH = [
    Bad(
        "spec.parameters",
        "the values of 500 trials have 518500 characters of JSON, at most 400000 fit into the status",
        {"parameters": [{"name": "notes", "env": "NOTES", "values": ["x" * 1024]}], "search": {"trials": 500}},
    ),
    Bad("spec.search.list", "method List requires list", {"search": {"method": "List"}}),
    Bad(
        "spec.search.trials",
        "Invalid value: 4: the grid has 3 combinations; reduce trials",
        {"parameters": [PARAMETERS[1]], "search": {"method": "Grid", "trials": 4}},
    ),
    Bad(
        "spec.search.trials",
        "the grid has 1000 combinations, and a sweep at most 500 trials",
        {
            "parameters": [{"name": "x", "field": "runtime.seed", "range": {"min": 1, "max": 1000, "step": 1}}],
            "search": {"method": "Grid"},
        },
    ),
    Bad(
        "spec.search.trials",
        "Invalid value: 2: the list has 1 item",
        {"parameters": [RANGE], "search": {**LIST, "trials": 2}},
    ),
    Bad(
        "spec.search.list[0].precision",
        "Required value: the value of parameter precision",
        {"parameters": [RANGE, PARAMETERS[2]], "search": LIST},
    ),
    Bad(
        "spec.search.list[0].learnRate",
        "no parameter has this name; did you mean learningRate?",
        {"parameters": [RANGE], "search": {**LIST, "list": [{"learningRate": 0.1, "learnRate": 0.1}]}},
    ),
    Bad(
        "spec.search.list[1].learningRate",
        'value "x" at training.config.learningRate: Invalid value: "x": must be a number',
        {"parameters": [RANGE], "search": {**LIST, "list": [{"learningRate": 0.1}, {"learningRate": "x"}]}},
    ),
]
OF_PARAMETERS = [
    bad_parameter("", "Required value: set values or range"),
    bad_parameter("", "values and range are mutually exclusive", values=[0.1], range={"min": 0.1, "max": 1}),
    bad_parameter(".values", "different kinds (number and string)", values=[0.1, "0.2"]),
    bad_parameter(".values", "different kinds (boolean and number)", field="runtime.seed", values=[True, 1]),
    bad_parameter(".values", "different kinds (list and object)", field="training.config.data", values=[[], {}]),
    bad_parameter(".values[0]", "must not be null", values=[None]),
    bad_parameter(".range.min", "min must be less than max", range={"min": 1, "max": 0.5}),
    bad_parameter(".range.min", "scale Log requires a min greater", range={"min": -1, "max": 0.5, "scale": "Log"}),
    bad_parameter(".range.step", "step must be greater than 0", range={"min": 0, "max": 0.5, "step": 0}),
    Bad(
        "spec.parameters[0].range.step",
        "step must be greater than 0",
        {"parameters": [{"name": "x", "range": {"min": 0, "max": 1, "step": 0}}], "search": {"method": "Grid"}},
    ),
    bad_parameter(".env", "Forbidden: TF_CONFIG, TFDIST_JOB and names that", env="TF_CONFIG", values=["x"]),
    bad_parameter(".env", "names that begin with TFDIST_ are reserved", env="TFDIST_TRIAL", values=["x"]),
    bad_parameter("", 'value "x" at training.config.learningRate: Invalid value: "x": must be a number', values=["x"]),
    bad_parameter(
        "",
        "value 1.0 at runtime.seed: Invalid value: 1.0: must be an integer, without quotes; set range.step to 1",
        field="runtime.seed",
        range={"min": 1, "max": 1.5},
    ),
    Bad(
        "spec.parameters[0].range.step",
        "Required value: a grid requires a finite number of values",
        {"parameters": [RANGE], "search": {"method": "Grid"}},
    ),
    Bad(
        "spec.parameters[0]",
        "value 0.1 at training.config.lerningRate: unknown field; did you mean learningRate?",
        {"parameters": [{**RANGE, "name": "lerningRate"}]},
    ),
    Bad(
        "spec.parameters[1]",
        'Duplicate value: "training.config.learningRate": parameter learningRate sets it too',
        {"parameters": [RATE, {"name": "b", "field": "training.config.learningRate", "values": [0.1]}]},
    ),
    Bad(
        "spec.parameters[1]",
        'Duplicate value: "X": parameter a sets it too',
        {"parameters": [{"name": name, "env": "X", "values": ["1"]} for name in "ab"]},
    ),
    Bad("spec.parameters[1]", "runtime.seed and runtime of parameter a contain one another", {"parameters": TWO}),
    Bad("spec.parameters[1]", "runtime and runtime.seed of parameter b contain", {"parameters": TWO[::-1]}),
    Bad(
        "spec.parameters[0].field",
        f"{JOB}.args is not an object, so it has no first; set args as a whole",
        {"parameters": of_field("args.first", "-v")},
        {"args": ["-v"], "image": "x"},
    ),
    bad_target("env", "Forbidden: a parameter must not set env: set the variable by env", []),
    bad_target("env.X", "Forbidden: a parameter must not set env", "1"),
    bad_target("task", "every trial trains", "Train"),
    bad_target("runPolicy.suspend", "the sweep suspends its jobs", False),
    bad_target("runPolicy.ttlSecondsAfterFinished", "the sweep deletes its jobs", 1),
    bad_target("runPolicy.managedBy", "all jobs of a sweep have one controller", "a/b"),
    bad_target("evaluation.mode", "evaluated at the same times", "Both"),
    bad_target("evaluation.metric", "trials are compared by one metric", "loss"),
    bad_target("evaluation.goal", "one metric and goal", "Minimize"),
    bad_target("runPolicy", "use a field below runPolicy", {"backoffLimit": 1}),
]
OF_THE_TEMPLATE = [
    Bad(f"{JOB}.task", "task Evaluate has no training to compare", {}, {"task": "Evaluate", "evaluation": {}}),
    Bad(f"{JOB}.runPolicy.suspend", "the sweep suspends its jobs", {}, {"runPolicy": {"suspend": True}}),
    Bad(
        f"{JOB}.runPolicy.ttlSecondsAfterFinished",
        "the sweep deletes its jobs",
        {},
        {"runPolicy": {"ttlSecondsAfterFinished": 10}},
    ),
    Bad(
        f"{JOB}.checkpoint.directory",
        'Invalid value: "/ckpt/run": must contain {name} or {uid}',
        {},
        {"checkpoint": {**CHECKPOINT, "directory": "/ckpt/run"}},
    ),
    Bad(
        f"{JOB}.training.export.directory",
        "must contain {name} or {uid}",
        {},
        {"training": {**TRAINING, "export": {"directory": "/ckpt/models"}}},
    ),
    Bad(
        f"{JOB}.tensorBoard.logDirectory",
        "must contain {name} or {uid}",
        {},
        {"tensorBoard": {"logDirectory": "gs://bucket/{namespace}"}},
    ),
    Bad(f"{JOB}.worker.replicas", "must be at least 1", {}, {"worker": {"replicas": 0}}),
    Bad(f"{JOB}.wroker", "unknown field; did you mean worker?", {}, {"wroker": {}}),
    Bad(f"{JOB}.evaluation", "must not be null", {"metric": "loss"}, {"evaluation": None}),
    Bad(f"{JOB}.oomPolicy", "not supported by this version", {}, {"oomPolicy": {}}),
    Bad(
        f"{JOB}.volumeMounts[0].name",
        "no volume has this name",
        {},
        {"volumeMounts": [{"name": "v", "mountPath": "/v"}]},
    ),
    Bad(
        f"{JOB}.env[1].value",
        "must be a string",
        {},
        {"env": [{"name": "A", "value": "1"}, {"name": "B", "value": 2}]},
    ),
    Bad(
        f"{JOB}.env[1].valueFrom.x",
        "unknown field",
        {},
        {"env": [{"name": "WARMUP_STEPS", "value": "1"}, {"name": "B", "valueFrom": {"x": {}}}]},
    ),
]
BAD = [*OF_THE_SWEEP, *OF_THE_SEARCH, *OF_PARAMETERS, *OF_THE_TEMPLATE]
