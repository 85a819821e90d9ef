"""A job that succeeded has the models and checkpoints that it was asked for, or reports which it lacks."""

from typing import Any

import pytest
from pydantic.alias_generators import to_camel
from support.factories import CHECKPOINT, TRAINING, Lifecycle, event_reasons, pod, report, termination_message

BOTH = "worker-0:R worker-1:R"
SAVED = {"last_checkpoint": {"step": 16, "path": "/ckpt/fashion/checkpoint-000000016"}}
FINAL = {"which": "Final", "step": 16}
BEST = {"which": "Best", "step": 8}
EVALUATION = {"step": 8, "metrics": {"val_loss": 0.5}}


def message(**fields: Any) -> str:
    return termination_message(**{to_camel(name): value for name, value in {"step": 16, **fields}.items()})


def script(*which: str, **spec: Any) -> Lifecycle:
    """Return a job with a script, which exports these models, on two running workers."""
    export = {"export": {"which": list(which)}} if which else {}
    return Lifecycle(BOTH, training={"script": "/train.py", **export}, checkpoint=CHECKPOINT, **spec)


def ended(text: str, **changes: Any) -> list[Any]:
    return [pod("worker-0", "S", message=text, **changes), pod("worker-1", "S")]


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("", "os._exit"),
        ("my script is done", "os._exit"),
        (message(), "no call of fit of Keras 3 returned"),
        (message(**SAVED, exports=[BEST]), "final model"),
    ],
    ids=["no message", "the script's own message", "without fit", "only the other model"],
)
def test_a_script_that_has_not_exported_its_final_model_has_failed(text: str, cause: str) -> None:
    job = script("Final")
    todo = job.reconcile(ended(text))
    assert job.condition_status("Failed") == ("True", "ExportMissing")
    assert cause in job.message("Failed")
    assert "worker-0 (pod fashion-worker-0) ended with exit code 0" in job.message("Failed")
    assert event_reasons(todo) == ["Failed"]


def test_a_script_that_has_exported_what_was_asked_for_has_succeeded() -> None:
    job = script("Final", "Best")
    job.reconcile(ended(message(**SAVED, evaluation=EVALUATION, exports=[FINAL, BEST])))
    assert job.status["phase"] == "Succeeded"


def test_a_best_model_without_a_validation_names_validation_data() -> None:
    job = script("Final", "Best")
    job.reconcile(ended(message(**SAVED, exports=[FINAL])))
    assert job.condition_status("Failed") == ("True", "ExportMissing")
    assert "did not export the best model" in job.message("Failed")
    assert "validation_data" in job.message("Failed")
    assert job.status["export"]["final"]["step"] == 16


@pytest.mark.parametrize(
    ("text", "changes"),
    [('{"reason":"Completed","mess', {}), ("", {"exit_code": None}), ("", {"exit_code": 1})],
    ids=["a message that is cut", "an end that is not known", "an ignored failure"],
)
def test_an_end_that_is_not_known_decides_nothing(text: str, changes: dict[str, Any]) -> None:
    job = script("Final")
    job.reconcile(ended(text, **changes))
    assert job.status["phase"] == "Succeeded"


def test_a_job_that_has_succeeded_is_not_judged_again() -> None:
    job = script("Final")
    job.reconcile(ended(message(**SAVED, exports=[FINAL])))
    del job.status["export"]
    job.reconcile(ended(""))
    assert job.status["phase"] == "Succeeded"


def test_a_program_of_another_image_that_exports_nothing_has_failed() -> None:
    job = Lifecycle(BOTH, training={**TRAINING, "export": {}}, checkpoint=CHECKPOINT)
    job.reconcile(ended(message(**SAVED)))
    assert job.condition_status("Failed") == ("True", "ExportMissing")
    assert "python -m tfdist_trainer" in job.message("Failed")


def evaluated(**evaluation: Any) -> Lifecycle:
    """Return a program whose evaluator is to export the best model, and whose training has just ended."""
    training = {**TRAINING, "export": {"which": ["Final", "Best"]}}
    spec = {"evaluation": {"mode": "Continuous"} | evaluation, "checkpoint": CHECKPOINT, "training": training}
    job = Lifecycle(f"{BOTH} evaluator-0:R", **spec)
    job.reconcile([*DONE, pod("evaluator-0")])
    assert job.status["phase"] == "Evaluating"
    return job


DONE = ended(message(**SAVED, exports=[FINAL]))


def test_an_evaluator_that_has_exported_the_best_model_ends_a_job_well() -> None:
    job = evaluated()
    job.reconcile([*DONE, pod("evaluator-0", "S", message=message(evaluation=EVALUATION, exports=[BEST]))])
    assert job.status["phase"] == "Succeeded"


@pytest.mark.parametrize("on_failure", ["Warn", "FailJob"])
def test_an_evaluator_that_fails_leaves_no_best_model(on_failure: str) -> None:
    job = evaluated(onFailure=on_failure)
    job.reconcile([*DONE, pod("evaluator-0", "F", exit_code=66, message=message(message="no file /data/x"))])
    assert job.status["phase"] == "Failed"
    assert "no file /data/x" in job.message("Failed")
    assert job.condition_status("Evaluated")[0] == "False"


def test_an_evaluator_that_is_stopped_before_its_export_leaves_no_best_model() -> None:
    job = evaluated(deadlineSeconds=60)
    result = report(phase="evaluating", evaluation=EVALUATION, best_evaluation=EVALUATION, final_evaluation=EVALUATION)
    todo = job.reconcile([*DONE, pod("evaluator-0")], after=61, evaluated=result.content)
    assert job.condition_status("Failed") == ("True", "ExportMissing")
    assert job.condition_status("Evaluated") == ("True", "Evaluated")
    assert event_reasons(todo) == ["Failed"]


# Checkpoints


def test_a_script_that_saves_has_its_checkpoint() -> None:
    job = script()
    job.reconcile(ended(message(**SAVED, saves_checkpoints=True)))
    assert job.status["phase"] == "Succeeded"
    assert not any(c["type"] == "Degraded" for c in job.status["conditions"])


def test_a_fit_that_has_saved_nothing_has_failed() -> None:
    job = script()
    job.reconcile(ended(message(saves_checkpoints=True)))
    assert job.condition_status("Failed") == ("True", "CheckpointMissing")


def test_a_script_that_ends_by_os_exit_loses_the_checkpoint_of_its_end() -> None:
    job = script()
    saved = {"step": 8, "path": "/ckpt/fashion/checkpoint-000000008"}
    job.reconcile(ended(""), report=report(step=16, total=16, last_checkpoint=saved, saves_checkpoints=True))
    assert job.condition_status("Failed") == ("True", "CheckpointMissing")
    assert "the last one is of step 8, and training had reached step 16" in job.message("Failed")
    assert "os._exit" in job.message("Failed")


@pytest.mark.parametrize(
    ("failure", "cause"),
    [
        ({"reason": "Bug", "message": "ValueError: no"}, "its script has failed (ValueError: no)"),
        ({"reason": "Exit", "message": ""}, "its script has failed (Exit)"),
        ({"reason": "Preempted", "message": "SIGTERM arrived"}, "its script has failed (SIGTERM arrived)"),
    ],
)
@pytest.mark.parametrize("which", [(), ("Final",)])
def test_a_shell_does_not_hide_the_failure_of_a_script(
    failure: dict[str, str], cause: str, which: tuple[str, ...]
) -> None:
    # given a checkpoint of the last step before the failure
    job = script(*which)
    # when `bash -c "python train.py | tee log"` ends with 0
    job.reconcile(ended(message(**SAVED, saves_checkpoints=True, **failure)))
    # then
    assert job.condition_status("Failed") == ("True", "ExportMissing" if which else "CheckpointMissing")
    assert cause in job.message("Failed")
    assert "set -eo pipefail" in job.message("Failed")


def test_a_failure_that_a_shell_hides_is_named_if_nothing_is_missing() -> None:
    job = Lifecycle(BOTH, training={"script": "/train.py"})
    todo = job.reconcile(ended(message(reason="Bug", message="ValueError: no")))
    assert job.status["phase"] == "Succeeded"
    assert job.condition_status("Degraded") == ("True", "FailureIgnored")
    assert "its script has failed (ValueError: no)" in job.message("Degraded")
    assert event_reasons(todo) == ["FailureIgnored", "Succeeded"]


def test_reports_of_an_earlier_attempt_are_none_of_this_one() -> None:
    job = script()
    job.reconcile(ended(""), report=report(step=16, attempt=1, saves_checkpoints=True))
    assert job.status["phase"] == "Succeeded"


@pytest.mark.parametrize("text", ["", message()], ids=["an image without the trainer", "a loop that reports"])
def test_a_checkpoint_without_effect_is_named_once(text: str) -> None:
    job = script()
    todo = job.reconcile(ended(text))
    assert job.status["phase"] == "Succeeded"
    assert job.condition_status("Degraded") == ("True", "CheckpointUnused")
    assert "if the script saves and restores its own checkpoints" in job.message("Degraded")
    assert event_reasons(todo) == ["CheckpointUnused", "Succeeded"]


def test_a_job_without_checkpoints_needs_none() -> None:
    job = Lifecycle(BOTH, training={"script": "/train.py"})
    job.reconcile(ended(""))
    assert job.status["phase"] == "Succeeded"
    assert not any(c["type"] == "Degraded" for c in job.status["conditions"])


def test_a_fit_that_was_left_to_keras_is_named_in_a_condition_and_an_event() -> None:
    job = Lifecycle("worker-0:R", training={"script": "/train.py"}, worker={"replicas": 1})
    text = termination_message(attempt=0, untestedVersions="keras 3.8.0")
    todo = job.reconcile([pod("worker-0", "S", message=text)])
    assert job.condition_status("Degraded") == ("True", "UntestedVersions")
    assert job.message("Degraded").startswith("fit was left to Keras: the image has keras 3.8.0")
    assert event_reasons(todo) == ["UntestedVersions", "Succeeded"]
