"""Combinations of parameters, of which the quick tests have half."""

import itertools
from collections.abc import Sequence
from typing import Any

import pytest


def half_quick(*choices: Sequence[Any]) -> list[Any]:
    """Return each combination of the choices as parameters of a test; every second one is for `make test-long`.

    As on a checkerboard, the quick ones are those of which the sum of the positions is even: each value is among them,
    and of choices of two values each that are three or more, each pair of values.
    """
    combinations = itertools.product(*(enumerate(choice) for choice in choices))
    return [
        pytest.param(*(value for _, value in each), marks=pytest.mark.long if sum(n for n, _ in each) % 2 else ())
        for each in combinations
    ]
