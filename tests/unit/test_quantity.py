"""Quantities are read as in Kubernetes, and common errors get a suggestion."""

from fractions import Fraction

import pytest

from tfdist.podspec import parse_quantity

READ: dict[object, Fraction | int] = {
    "1": 1,
    "500m": Fraction(1, 2),
    "1Gi": 2**30,
    "1.5Gi": 3 * 2**29,
    "1e3": 1000,
    "12E-1": Fraction(6, 5),
    "2E": 2 * 10**18,
    "1.": 1,
    ".5": Fraction(1, 2),
    "+3": 3,
    " 4 ": 4,
    "0": 0,
    4: 4,
    0.1: Fraction(1, 10),
    1e22: 10**22,
}

NO_QUANTITY = ["", "Gi", "1 Gi", "0x10", "1e", "1e1.5", "1e100", "1ki", "1mi", "1..2", "-1", "1_000", "٣", "nan"]


@pytest.mark.parametrize("given", READ, ids=repr)
def test_a_quantity_is_an_exact_number(given: object) -> None:
    assert parse_quantity(given) == READ[given]


@pytest.mark.parametrize("given", NO_QUANTITY)
def test_undocumented_forms_are_rejected(given: str) -> None:
    with pytest.raises(ValueError, match="must be a quantity"):
        parse_quantity(given)


@pytest.mark.parametrize("given", [None, True, [], {}, float("nan"), float("inf"), "9" * 1000, 10**5000], ids=type)
def test_other_values_are_rejected(given: object) -> None:
    with pytest.raises(ValueError, match="must be a quantity"):
        parse_quantity(given)


@pytest.mark.parametrize(
    ("given", "better"),
    [("4GB", "4G"), ("4 Gi", "4Gi"), ("4gi", "4Gi"), ("4GiB", "4Gi"), ("16g", "16G"), ("100K", "100k")],
)
def test_common_errors_get_a_suggestion(given: str, better: str) -> None:
    with pytest.raises(ValueError, match=f"did you mean {better}"):
        parse_quantity(given)


def test_a_fraction_below_a_billionth_is_rounded_up_and_a_binary_number_is_capped() -> None:
    assert parse_quantity("0.1n") == parse_quantity("1e-99") == Fraction(1, 10**9)
    assert parse_quantity("9999Ei") == 2**63 - 1


def test_requests_and_limits_compare_across_suffixes() -> None:
    assert parse_quantity("1000m") == parse_quantity(1) == parse_quantity("1e0")
    assert parse_quantity("1G") < parse_quantity("1Gi") < parse_quantity("1.1G")
