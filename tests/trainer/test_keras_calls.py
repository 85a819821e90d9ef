"""What the workers compare before a call of Keras: the call itself, and the number of batches."""

import numpy as np
import pytest

from tfdist_trainer.keras import calls

pytestmark = pytest.mark.trainer


@pytest.mark.parametrize("batches", [[20, 20], [20, -1, 20], [-1, -1], [0, 0]])
def test_equal_or_unknown_numbers_of_batches_are_no_error(batches: list[int]) -> None:
    calls.check_equal(np.asarray(batches, np.float64), "fit")


@pytest.mark.parametrize(
    ("batches", "counts"),
    [
        ([20, 10], "worker 0 has 20, worker 1 has 10."),
        ([-1, 10, 12], "worker 1 has 10, worker 2 has 12."),
        ([7] * 400 + [6] * 400, "worker 0 has 7, worker 400 has 6."),
        ([*range(800)], "worker 0 has 0, worker 1 has 1, worker 2 has 2, worker 3 has 3, worker 4 has 4."),
    ],
)
def test_an_error_of_batches_names_one_worker_for_each_number_and_few_of_many(batches: list[int], counts: str) -> None:
    with pytest.raises(ValueError, match="different numbers of batches in predict") as raised:
        calls.check_equal(np.asarray(batches, np.float64), "predict")
    assert counts in str(raised.value)


@pytest.mark.parametrize(
    ("nested", "text"),
    [
        ([], ""),
        (["fit"], "fit"),
        (["fit", "validation"], "the validation of fit"),
        (["fit", "validation", "predict"], "predict in a callback of the validation of fit"),
    ],
)
def test_the_calls_of_another_worker_are_described_as_its_own(nested: list[str], text: str) -> None:
    assert calls._decode(calls._encode(nested)) == calls._describe(nested) == text


def test_calls_that_are_nested_without_end_fit_into_a_number() -> None:
    assert calls._decode(calls._encode(["predict"] * 100)).count("predict") == 20
