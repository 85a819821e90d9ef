"""Weights that differ between workers are named, and end a job that asks for one training."""

import json
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
import pytest
from support.replica_jobs import CHECKPOINT, WORKER

from tfdist_trainer import script_end
from tfdist_trainer.keras.drift import DriftCheck

pytestmark = pytest.mark.trainer

KERNEL = np.random.RandomState(0).randn(40, 30).astype("float32")


class Model:
    """A model with a bias and a kernel of these values, under the name `dense`."""

    name = "dense"

    def __init__(self, kernel: Any, dtype: str = "float32") -> None:
        self.variables = [keras.Variable(np.zeros(3, "float32"), name="bias")]
        self.variables.append(keras.Variable(kernel, dtype=dtype, name="kernel"))
        self.variables.append(keras.Variable(3, dtype="int32", name="counter"))


class Chief:
    """The comparison of a chief, which keeps its values."""

    def chief_values(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        self.values = values
        return values

    def gather(self, *values: float) -> list[tuple[float, ...]]:
        return [values, (0.0, 0.0)]


class Second:
    """That of worker 1, which gets the values of the chief."""

    def __init__(self, chief: Chief) -> None:
        self._chief = chief

    def chief_values(self, _values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        return self._chief.values

    def gather(self, *values: float) -> list[tuple[float, ...]]:
        return [(0.0, 0.0), values]


def compare(of_chief: Any, of_second: Any, dtype: str = "float32") -> None:
    chief = Chief()
    DriftCheck().compare(Model(of_chief, dtype), chief)  # type: ignore[arg-type]
    DriftCheck().compare(Model(of_second, dtype), Second(chief))  # type: ignore[arg-type]


NAN = np.full_like(KERNEL, np.nan)


@pytest.mark.parametrize(
    ("of_chief", "of_second", "dtype"),
    [
        pytest.param(KERNEL, KERNEL * np.float32(1 + 1e-5), "float32", id="rounding"),
        pytest.param(KERNEL, KERNEL, "bfloat16", id="half precision"),
        pytest.param(NAN, NAN, "float32", id="all diverged"),
        pytest.param(1e-9 * KERNEL, 2e-9 * KERNEL, "float32", id="next to zero"),
    ],
)
def test_weights_that_differ_by_rounding_are_equal(
    of_chief: Any, of_second: Any, dtype: str, capfd: pytest.CaptureFixture[str]
) -> None:
    compare(of_chief, of_second, dtype)
    assert "weights-differ" not in "".join(capfd.readouterr())


@pytest.mark.parametrize(
    "of_second",
    [
        pytest.param(KERNEL + 0.01 * np.roll(KERNEL, 1), id="one percent"),
        pytest.param(KERNEL[::-1].copy(), id="the same sum and norm"),
        pytest.param(NAN, id="one diverged"),
    ],
)
def test_a_worker_with_other_weights_is_named_with_the_variable(
    of_second: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    compare(KERNEL, of_second)
    log = "".join(capfd.readouterr())
    assert log.count("weights-differ model=dense worker=1 variable=kernel distance=") == 1


def test_a_job_with_a_checkpoint_ends_with_78(monkeypatch: pytest.MonkeyPatch) -> None:
    class Left(Exception):  # noqa: N818  the end of the process
        pass

    ends: list[tuple[str, int]] = []

    def leave(reason: str, _message: str, exit_code: int) -> None:
        ends.append((reason, int(exit_code)))
        raise Left

    monkeypatch.setattr(script_end, "leave", leave)
    monkeypatch.setenv("TFDIST_JOB", json.dumps(WORKER | {"replicas": {"worker": 2}, "checkpoint": CHECKPOINT}))
    monkeypatch.setenv("TFDIST_ROUND", "0")
    with pytest.raises(Left):
        compare(KERNEL, 2 * KERNEL)
    assert ends == [("Configuration", 78)]


def test_the_next_comparison_waits_until_the_last_one_is_a_small_part_of_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    check = DriftCheck()
    assert check.is_due()

    class Slow(Chief):
        def gather(self, *values: float) -> list[tuple[float, ...]]:
            now[0] += 2.0
            return super().gather(*values)

    check.compare(Model(KERNEL), Slow())  # type: ignore[arg-type]
    now[0] += 399.0
    assert not check.is_due()
    now[0] += 2.0
    assert check.is_due()
