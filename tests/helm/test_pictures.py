"""The drawing of dashboards: the same series give the same text, and every value has its place."""

import math
from xml.etree import ElementTree as ET

import pytest

from pictures import Line, Picture, drawn, legend_of, shown, ticks_up_to

LINES = (Line("a & b", ((0.0, 0.0), (2.0, 3.0), (4.0, math.nan), (6.0, 1.0))), Line("c", ((0.0, 5.0),)))
PANELS = (
    Picture("Lines", "s", "timeseries", "", LINES),
    Picture("One number", "short", "stat", "", (Line("x", ((0.0, 7.0),)),)),
    Picture("Nothing", "short", "timeseries", "Empty while none fails.", ()),
    Picture("Many", "reqps", "timeseries", "", tuple(Line(f"n{i}", ((0.0, i), (2.0, i))) for i in range(9))),
)


def test_equal_series_give_byte_equal_pictures_which_are_xml() -> None:
    text = drawn("TFDist / Test", PANELS, 10, 2)
    assert text == drawn("TFDist / Test", PANELS, 10, 2)
    texts = ["".join(node.itertext()) for node in ET.fromstring(text).iter() if node.tag.endswith("text")]  # noqa: S314  ours
    for expected in ("TFDist / Test", "a & b", "7", "No data. Empty while none fails.", "and 4 more"):
        assert expected in texts


def test_what_is_not_there_is_not_joined() -> None:
    (first, _) = (part for part in drawn("", PANELS[:1], 10, 2).splitlines() if 'class="line"' in part)
    assert first.count("M") == 2


@pytest.mark.parametrize("largest", [0, 1e-4, 0.3, 1, 4.2, 5, 9.99, 10, 137, 25_000])
def test_an_axis_has_a_few_round_numbers_and_holds_the_largest_value(largest: float) -> None:
    ticks = ticks_up_to(largest)
    assert 3 <= len(ticks) <= 7
    assert ticks[0] == 0
    assert ticks[-1] >= largest


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.5, "percentunit", "50 %"),
        (0.25, "s", "250 ms"),
        (3, "s", "3 s"),
        (2.5, "reqps", "2.5/s"),
        (25_000, "short", "25k"),
    ],
)
def test_values_are_written_as_people_read_them(value: float, unit: str, text: str) -> None:
    assert shown(value, unit) == text


def test_a_line_is_named_by_its_labels() -> None:
    assert legend_of("{{verb}} {{resource}}", {"verb": "GET", "resource": "pods"}) == "GET pods"
