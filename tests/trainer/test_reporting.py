"""Reports of a replica: classification of errors, termination message, Prometheus; and steps per execution."""

import json

import pytest

from tfdist.contract import RETURNED_VALUE_BYTES, CheckpointSettings, ExitCode, Phase, Role
from tfdist.contract_reports import (
    CheckpointReport,
    EvaluationReport,
    FunctionReport,
    ProgressReport,
    TerminationMessage,
)
from tfdist.printable import printable
from tfdist_trainer import termination
from tfdist_trainer.errors import ConfigurationError, classify
from tfdist_trainer.report_server import prometheus_text
from tfdist_trainer.save_schedule import SaveSchedule
from tfdist_trainer.steps_per_execution import MAX_STEPS_PER_EXECUTION, StepsPerExecutionTuner

TIME = "2026-01-02T03:04:05.678Z"
REPORT = ProgressReport(
    role=Role.EVALUATION,
    index=1,
    attempt=2,
    phase=Phase.FINISHED,
    step=470,
    metrics={"loss": 0.25},
    last_checkpoint=CheckpointReport(step=470, path="/ckpt/job/checkpoint-000000470", time=TIME),
    evaluation=EvaluationReport(
        step=470, checkpoint="/ckpt/job/checkpoint-000000470", metrics={"accuracy": 0.9}, examples=10000, time=TIME
    ),
)


DIFFERENT_TYPES = "Collective instance 120 expected type 0 and data_type 2 but got type 2 and data_type 3"
DIFFERENT_SHAPES = "Shape mismatch in the collective instance 120. Op at device x expected shape [6] but another [3]"


def tensorflow_error(name: str, text: str) -> Exception:
    kind = type(name, (Exception,), {"__module__": "tensorflow.python.framework.errors_impl"})
    error: Exception = kind(text)
    return error


@pytest.mark.parametrize(
    ("error", "code", "reason"),
    [
        (ConfigurationError("training: wrong"), ExitCode.CONFIGURATION, "Configuration"),
        (tensorflow_error("UnavailableError", "Socket closed"), ExitCode.PEER_LOST, "PeerLost"),
        (tensorflow_error("InternalError", "Collective ops is aborted by: x"), ExitCode.PEER_LOST, "PeerLost"),
        (tensorflow_error("InternalError", DIFFERENT_TYPES), ExitCode.SOFTWARE, "Bug"),
        (tensorflow_error("InternalError", DIFFERENT_SHAPES), ExitCode.SOFTWARE, "Bug"),
        (tensorflow_error("InternalError", "Blas GEMM launch failed"), ExitCode.SOFTWARE, "Bug"),
        (tensorflow_error("DataLossError", "corrupted record at 12"), ExitCode.DATA_MALFORMED, "DataMalformed"),
        (tensorflow_error("ResourceExhaustedError", "OOM"), ExitCode.SOFTWARE, "Bug"),
        (ValueError("UnavailableError"), ExitCode.SOFTWARE, "Bug"),
        (ZeroDivisionError(), ExitCode.SOFTWARE, "Bug"),
    ],
)
def test_every_exception_has_an_exit_code_and_a_reason(error: Exception, code: ExitCode, reason: str) -> None:
    failure = classify(error)
    assert (failure.exit_code, failure.reason) == (code, reason)
    assert "\n" not in failure.message


@pytest.mark.parametrize(
    "text", [DIFFERENT_TYPES, f"Collective ops is aborted by: {DIFFERENT_TYPES}", DIFFERENT_SHAPES]
)
def test_an_error_of_workers_that_do_not_run_the_same_names_the_remedy(text: str) -> None:
    message = classify(tensorflow_error("InternalError", text)).message
    assert "must run the same steps and the same calls of fit, evaluate and predict" in message
    assert text in message


def test_a_graph_error_has_its_cause_without_the_traceback_of_the_graph() -> None:
    text = (
        "Graph execution error:\n\nDetected at node while/CollectiveReduceV2 defined at (most recent call last):\n"
        '  File "/x.py", line 32, in <module>\n\nCollective ops is aborted by: recvmsg:Connection reset by peer\n'
        "The error could be from a previous operation. Restart your program to reset.\n"
        "\t [[{{node while/CollectiveReduceV2}}]] [Op:__inference_execute_500]"
    )
    message = classify(tensorflow_error("UnavailableError", text)).message
    assert message.startswith("UnavailableError: Collective ops is aborted by: recvmsg:Connection reset by peer")
    assert "[[" not in message


def test_an_error_in_an_input_pipeline_has_its_cause_without_the_name_of_the_node() -> None:
    text = (
        "Graph execution error:\n\nDetected at node IteratorGetNext defined at (most recent call last):\n"
        "<stack traces unavailable>\ncache lockfile already exists ('/cache/train_0.lockfile').\n"
        "\t [[{{node IteratorGetNext}}]] [Op:__inference_execute_500]"
    )
    message = classify(tensorflow_error("AlreadyExistsError", text)).message
    assert message == "AlreadyExistsError: cache lockfile already exists ('/cache/train_0.lockfile')."


def test_a_group_of_exceptions_has_the_first_of_them() -> None:
    group = ExceptionGroup("shards failed", [ExceptionGroup("of a", [OSError("disk full")]), ValueError("b")])
    assert classify(group).message == (
        "ExceptionGroup: shards failed (2 sub-exceptions); the first: OSError: disk full"
    )


def test_a_keras_error_has_its_cause_without_the_arguments_of_the_call() -> None:
    cause = (
        "Exception encountered when calling Sequential.call().\n    \n    \x1b[1mInput 0 does not fit: x\x1b[0m\n    \n"
        "    Arguments received by Sequential.call():\n      • inputs=tf.Tensor(shape=(3, 2))\n      • mask=None\n"
    )
    frames = '    File "/x.py", line 6, in f  *\n        x += m(x)\n    File "/y.py", line 9, in g\n        raise E(\n'
    for text in (cause, f"in user code:\n\n{frames}\n    ValueError: {cause}"):
        message = classify(ValueError(text)).message
        assert message == "ValueError: Exception encountered when calling Sequential.call(). Input 0 does not fit: x"


@pytest.mark.parametrize("text", ["", "short", "x" * 5000, "ü" * 5000, '\0\n"\\' * 2000, "😀" * 3000])
def test_the_termination_message_is_json_of_at_most_1_kib(text: str) -> None:
    encoded = termination.compose("Bug", text, REPORT)
    assert len(encoded.encode()) <= 1024
    message = TerminationMessage.model_validate_json(encoded)
    assert message.evaluation == REPORT.evaluation
    assert message.last_checkpoint == REPORT.last_checkpoint
    assert printable(text).startswith(message.message.removesuffix("..."))
    assert message.message == text or len(encoded.encode()) > 1012, "more was cut than necessary"


def test_the_termination_message_has_the_total_for_jobs_that_end_before_a_report_is_read() -> None:
    report = REPORT.model_copy(update={"total_steps": 470})
    message = TerminationMessage.model_validate_json(termination.compose("Completed", "", report))
    assert (message.step, message.total_steps) == (470, 470)


def test_training_metrics_give_way_to_the_cause() -> None:
    report = REPORT.model_copy(update={"metrics": {f"metric-{number}": 0.1 for number in range(200)}})
    message = TerminationMessage.model_validate_json(termination.compose("Bug", "the cause", report))
    assert (message.message, message.metrics, message.evaluation) == ("the cause", {}, REPORT.evaluation)


def test_a_returned_value_fits_beside_the_longest_message_into_what_the_kubelet_keeps() -> None:
    value = json.dumps("x" * (RETURNED_VALUE_BYTES - 6))
    report = REPORT.model_copy(update={"returned": FunctionReport(value=value)})
    encoded = termination.compose("Completed", "y" * 5000, report)
    assert len(encoded.encode()) <= 4096
    message = TerminationMessage.model_validate_json(encoded)
    assert (message.returned, message.evaluation) == (report.returned, REPORT.evaluation)


def test_the_best_result_gives_way_to_the_last_one() -> None:
    assert REPORT.evaluation is not None
    many = {f"a metric with a long name, {number}": 0.123456789012 for number in range(12)}
    last = REPORT.evaluation.model_copy(update={"metrics": many})
    report = REPORT.model_copy(update={"evaluation": last, "best_evaluation": last})
    message = TerminationMessage.model_validate_json(termination.compose("Completed", "", report))
    assert (message.evaluation, message.best_evaluation) == (last, None)


def test_metrics_for_prometheus_leave_out_what_is_not_known() -> None:
    text = prometheus_text(REPORT)
    labels = 'role="evaluation",index="1",attempt="2"'
    assert f"tfdist_trainer_step{{{labels}}} 470\n" in text
    assert f'tfdist_trainer_evaluation{{{labels},name="accuracy"}} 0.9\n' in text
    assert f'tfdist_trainer_phase{{{labels},phase="finished"}} 1\n' in text
    assert "input_wait" not in text


def test_steps_per_execution_grow_to_half_a_second_without_counting_compilation() -> None:
    tuner = StepsPerExecutionTuner()
    lengths = []
    for _ in range(6):
        lengths.append(tuner.steps)
        tuner.observe(tuner.steps, 30.0 if len(lengths) == 1 else 0.01 * tuner.steps)
    assert lengths == [1, 1, 8, 50, 50, 50]


def test_checkpoints_are_due_by_steps_by_time_or_at_the_end_of_epochs() -> None:
    now = [0.0]

    def schedule(**settings: int) -> SaveSchedule:
        return SaveSchedule(CheckpointSettings(directory="/c", **settings), lambda: now[0])

    steps = schedule(every_steps=100)
    assert (steps.steps_left(0), steps.steps_left(130), steps.steps_left(200)) == (100, 70, 100)
    assert steps.is_due(200, epoch_ended=False)
    assert steps.is_due(230, epoch_ended=False), "a call of several steps has passed 200"
    steps.record_save(230)
    assert not steps.is_due(299, epoch_ended=True)
    seconds = schedule(every_seconds=60)
    now[0] = 59.0
    assert not seconds.is_due(5, epoch_ended=True)
    now[0] = 60.0
    assert seconds.is_due(5, epoch_ended=False)
    seconds.record_save(1)
    assert not seconds.is_due(5, epoch_ended=False)
    neither = schedule()
    assert neither.steps_left(7) == MAX_STEPS_PER_EXECUTION
    assert neither.is_due(5, epoch_ended=True)
    assert not neither.is_due(5, epoch_ended=False)
