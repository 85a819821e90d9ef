"""`spec.runtime`: every setting has its effect, seen from inside a process that has applied it."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from support.polling import wait_for

from tfdist.api.training import RuntimeSpec
from tfdist.contract import ExitCode, Phase, Role
from tfdist_trainer import runtime
from tfdist_trainer.errors import ConfigurationError, DeviceMissingError
from tfdist_trainer.xla_autotuner import MEASURED_EXECUTIONS, PLAIN_EXECUTIONS, XlaAutotuner

if TYPE_CHECKING:
    from trainer.replicas import Launch

INSPECT = """
import json, os, sys
from tfdist.contract import Role
from tfdist_trainer import runtime
settings = runtime.read(json.loads(sys.argv[1]))
runtime.prepare(os.environ, settings)
import tensorflow as tf
from tfdist_trainer.keras_compat import keras
from tfdist_trainer.strategies import devices
from tfdist_trainer.upstream.eager_context import limit_gpu_memory, server_config
devices.configure(settings, Role.WORKER)
try:
    tf.random.uniform([1])
    is_deterministic = False
except RuntimeError:
    is_deterministic = True
def limited_after_the_start():
    tf.config.list_logical_devices()
    try:
        limit_gpu_memory(0.5)
    except RuntimeError as error:
        return str(error)
print(json.dumps({
    "late": limited_after_the_start(),
    "intra": tf.config.threading.get_intra_op_parallelism_threads(),
    "inter": tf.config.threading.get_inter_op_parallelism_threads(),
    "keras": keras.__name__.partition(".")[0],
    "policy": keras.mixed_precision.global_policy().name,
    "placement": tf.debugging.get_log_device_placement(),
    "is_deterministic": is_deterministic,
    "cpus": len(tf.config.list_logical_devices("CPU")),
    "log": os.environ["TF_CPP_MIN_LOG_LEVEL"],
    "memory_fraction": server_config().gpu_options.per_process_gpu_memory_fraction,
    "tensor_float32": tf.config.experimental.tensor_float_32_execution_enabled(),
    "collective": devices.communication(settings).implementation.value,
}))
"""


def inspected(settings: Mapping[str, Any], **more: str) -> dict[str, Any]:
    environ = {k: v for k, v in os.environ.items() if k != "TF_CPP_MIN_LOG_LEVEL"} | {"TFDIST_LOGICAL_CPUS": "3"}
    environ |= more
    command = [sys.executable, "-c", INSPECT, json.dumps(settings)]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    *events, last = done.stdout.splitlines()
    seen: dict[str, Any] = json.loads(last)
    return seen | {"event": next(line.partition(" devices ")[2] for line in events if " devices " in line)}


@pytest.mark.trainer
def test_settings_have_their_effect() -> None:
    plain = inspected({})
    late = "the fraction of GPU memory cannot be set after the runtime has started"
    assert plain == {
        "late": late,
        "intra": 0,
        "inter": 0,
        "keras": "keras",
        "policy": "float32",
        "placement": False,
        "is_deterministic": False,
        "cpus": 3,
        "log": "2",
        "memory_fraction": 0,
        "tensor_float32": True,
        "collective": "AUTO",
        "event": "CPU=3 tensorFloat32=True",
    }
    settings = {
        "intraOpThreads": 1,
        "interOpThreads": 2,
        "gpuMemoryFraction": 0.25,
        "mixedPrecision": "bfloat16",
        "tensorFloat32": False,
        "logDevicePlacement": True,
        "deterministic": True,
        "collective": "Ring",
    }
    assert inspected(settings) == {
        "late": late,
        "intra": 1,
        "inter": 2,
        "keras": "keras",
        "policy": "mixed_bfloat16",
        "placement": True,
        "is_deterministic": True,
        "cpus": 3,
        "log": "0",
        "memory_fraction": 0.25,
        "tensor_float32": False,
        "collective": "RING",
        "event": "CPU=3 tensorFloat32=False",
    }


@pytest.mark.trainer
def test_the_precision_of_models_of_the_former_keras_is_set_too() -> None:
    seen = inspected({"mixedPrecision": "bfloat16"}, TF_USE_LEGACY_KERAS="1")
    assert (seen["keras"], seen["policy"]) == ("tf_keras", "mixed_bfloat16")


@pytest.mark.trainer
@pytest.mark.parametrize(
    ("is_built_with_cuda", "error", "words"),
    [
        (False, ConfigurationError, r"image: this replica has 2 GPUs .*without CUDA; use an image with CUDA"),
        (True, DeviceMissingError, r"TensorFlow sees none of the 2 GPUs of this replica: check the NVIDIA driver"),
    ],
)
def test_a_replica_whose_gpus_are_not_seen_does_not_train_on_the_cpu(
    monkeypatch: pytest.MonkeyPatch, is_built_with_cuda: bool, error: type[Exception], words: str
) -> None:
    from tfdist_trainer.strategies import devices  # noqa: PLC0415  imports TensorFlow

    # given a machine without a GPU, and a TensorFlow with or without CUDA
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr("tensorflow.test.is_built_with_cuda", lambda: is_built_with_cuda)
    # when the container has GPUs, then it ends with words
    with pytest.raises(error, match=words):
        devices.configure(RuntimeSpec(), Role.WORKER, 2)
    # but not if its devices have been chosen
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    devices.configure(RuntimeSpec(), Role.WORKER, 2)


def test_steps_on_parameter_servers_are_never_compiled() -> None:
    assert runtime.for_servers(runtime.read({"seed": 3})) == RuntimeSpec(seed=3, xla="Off")
    with pytest.raises(ConfigurationError, match=r"runtime\.xla: .*parameter servers.* use Auto or Off"):
        runtime.for_servers(runtime.read({"xla": "On"}))


def test_a_setting_that_the_controller_omits_has_its_default() -> None:
    assert runtime.read({}) == RuntimeSpec()
    assert runtime.read({"gpuMemoryLimitMiB": 100}).gpu_memory_limit_mib == 100


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"xla": "Sometimes"}, r"runtime\.xla: Input should be 'Auto', 'On' or 'Off'"),
        ({"intraOpThreads": 0}, r"runtime\.intraOpThreads: "),
        ({"gpuMemoryFraction": 0.0}, r"runtime\.gpuMemoryFraction: Input should be greater than 0"),
        (
            {"gpuMemoryFraction": 0.5, "gpuMemoryLimitMiB": 1024},
            r"runtime\.gpuMemoryFraction: gpuMemoryFraction and gpuMemoryLimitMiB are mutually exclusive; keep one",
        ),
        ({"newSetting": 1}, r"runtime\.newSetting: this trainer image knows no such setting"),
    ],
)
def test_a_setting_that_is_wrong_or_not_known_is_named(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        runtime.read(settings)


@pytest.mark.trainer
def test_settings_that_cannot_be_had_end_the_job(launch: "Launch", config: dict[str, Any]) -> None:
    cases = {"visibleDevices": ([5], "there is no GPU 5"), "collective": ("NCCL", "NCCL exchanges between GPUs")}
    devices = {0: {"TFDIST_LOGICAL_CPUS": "2"}}
    for field, (value, message) in cases.items():
        job = {"strategy": "Mirrored", "runtime": {field: value}}
        replicas = launch(1, config=config, job=job, environs=devices)
        assert replicas.wait() == [ExitCode.CONFIGURATION], replicas.output()
        assert message in replicas.termination().message


@pytest.mark.trainer
def test_a_compilation_in_the_midst_of_training_is_reported_as_such_and_steps_go_on(
    launch: "Launch", config: dict[str, Any], tmp_path: Path
) -> None:
    """Given that XLA is tried, which may take minutes; `progressDeadlineSeconds` allows for that by the phase."""
    hold = tmp_path / "hold"
    hold.touch()
    training = {"program": "support.compiled_program:Compiled", "config": config | {"epochs": 1_000_000}}
    replica = launch(1, config={}, job={"training": training}, environs={0: {"HOLD_FILE": str(hold)}})
    compiling = replica.progress_when(lambda report: report.phase is Phase.COMPILING and (report.step or 0) > 0)
    hold.unlink()
    replica.progress_when(lambda report: report.phase is Phase.TRAINING and (report.step or 0) > (compiling.step or 0))
    wait_for("a decision", lambda: " xla keeps=" in replica.output(), context=replica.output)


@pytest.mark.long
@pytest.mark.trainer
def test_float16_trains_on_two_workers_and_goes_on_with_one(
    launch: "Launch", config: dict[str, Any], tmp_path: Path
) -> None:
    job = {"runtime": {"mixedPrecision": "float16"}, "checkpoint": {"directory": str(tmp_path)}}
    gang = launch(2, config=config | {"epochs": 4}, job=job)
    assert gang.wait() == [0, 0], gang.outputs
    alone = launch(1, config=config | {"epochs": 8}, job=job | {"attempt": 1})
    assert alone.wait() == [0], alone.output()
    assert alone.termination().metrics["accuracy"] > 0.6
    assert alone.termination().metrics["loss"] < gang.termination().metrics["loss"]


@pytest.mark.trainer
def test_a_bad_record_in_the_first_batch_is_no_fault_of_xla(
    launch: "Launch", config: dict[str, Any], tmp_path: Path
) -> None:
    from tfdist_trainer.data import tfrecord  # noqa: PLC0415  TensorFlow takes seconds to import

    path = tmp_path / "bad.tfrecord"
    tfrecord.write(str(path), {"label": np.zeros(20, np.int64)})
    own = {"data": {"train": str(path)}, "shuffleBuffer": 1}
    replica = launch(1, config=config | own, job={"runtime": {"xla": "On"}})
    assert replica.wait() == [ExitCode.DATA_MALFORMED], replica.output()
    assert str(path) in replica.termination().message


@pytest.mark.trainer
def test_mixed_precision_xla_and_a_seed_train_the_same_problem(launch: "Launch", config: dict[str, Any]) -> None:
    settings: dict[str, dict[str, Any]] = {
        "plain": {},
        "again": {"deterministic": True},
        "half": {"mixedPrecision": "float16", "seed": 7},
        "compiled": {"xla": "On", "mixedPrecision": "bfloat16"},
    }
    longer = config | {"epochs": 8}
    runs = {name: launch(1, config=longer, job={"runtime": value}) for name, value in settings.items()}
    losses = {}
    for name, run in runs.items():
        assert run.wait() == [0], run.output()
        losses[name] = run.termination().metrics["loss"]
        assert run.termination().metrics["accuracy"] > 0.6
    assert losses["again"] == pytest.approx(losses["plain"], rel=1e-4)
    assert losses["half"] != pytest.approx(losses["plain"], rel=1e-4), "another seed"
    assert losses["compiled"] == pytest.approx(losses["plain"], rel=0.1)


EXECUTIONS = PLAIN_EXECUTIONS + MEASURED_EXECUTIONS + 3
SLOWER = 10
"""How many times as long a step of an execution takes that something else holds up."""


def trial(
    tuner: XlaAutotuner, plain: float, compiled: float, steps_left: int, held_up: int | None = None
) -> list[bool]:
    """Return for each of some executions whether it was compiled; `held_up` is the number of one."""
    compiled_executions = []
    for number in range(EXECUTIONS):
        proposed = tuner.propose(steps_left)
        compiled_executions.append(proposed)
        seconds = compiled if proposed else plain
        tuner.observe(compiled=proposed, step_seconds=seconds * (SLOWER if number == held_up else 1))
    return compiled_executions


@pytest.mark.parametrize("held_up", range(2, PLAIN_EXECUTIONS + MEASURED_EXECUTIONS + 1))
def test_one_execution_that_is_held_up_does_not_decide_about_xla(held_up: int) -> None:
    faster, slower = (trial(XlaAutotuner("Auto"), 0.1, compiled, 10_000, held_up) for compiled in (0.05, 0.2))
    assert (faster[-1], slower[-1]) == (True, False)


@pytest.mark.parametrize(
    ("mode", "plain", "compiled", "steps_left", "expected"),
    [
        ("Auto", 0.1, 0.05, 10_000, [False] * PLAIN_EXECUTIONS + [True] * (MEASURED_EXECUTIONS + 3)),
        ("Auto", 0.1, 0.2, 10_000, [False] * PLAIN_EXECUTIONS + [True] * (MEASURED_EXECUTIONS + 1) + [False] * 2),
        ("Auto", 0.1, 0.05, 100, [False] * EXECUTIONS),
        ("On", 0.1, 0.2, 100, [True] * EXECUTIONS),
        ("Off", 0.1, 0.05, 10_000, [False] * EXECUTIONS),
    ],
    ids=["faster is kept", "slower is dropped", "a short training does not try", "on", "off"],
)
def test_xla_is_chosen_by_measuring(
    mode: Any, plain: float, compiled: float, steps_left: int, expected: list[bool]
) -> None:
    assert trial(XlaAutotuner(mode), plain, compiled, steps_left) == expected


def test_a_model_that_xla_cannot_compile_runs_without_it(capsys: pytest.CaptureFixture[str]) -> None:
    tuner = XlaAutotuner("Auto")
    tuner.record_failure("no such kernel")
    assert trial(tuner, 1.0, 0.1, 10_000) == [False] * EXECUTIONS
    assert 'reason="no such kernel"' in capsys.readouterr().out
