"""Combinations of parameters, of which the quick tests have half."""

import itertools
from collections.abc import Sequence
from typing import Any

import pytest


def half_quick(*choices: Sequence[Any]) -> list[Any]:
    """Return each combination of the choices as parameters of a test; every second one is for `make test-long`.

    Of two choices among two, the quick ones have each pair of values: as for a checkerboard, the sum of the positions
    is even.
    """
    combinations = itertools.product(*(enumerate(choice) for choice in choices))
    return [
        pytest.param(*(value for _, value in each), marks=pytest.mark.long if sum(n for n, _ in each) % 2 else ())
        for each in combinations
    ]
