"""Draws a dashboard as an SVG: the panels of `dashboards.py` with what a Prometheus answers to their queries.

Pure and deterministic: equal series give byte-equal text. Times are seconds since the beginning of the picture.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

COLUMNS: Final = 3
WIDTH: Final = 420
HEIGHT: Final = 250
GAP: Final = 10
PLOT: Final = (56, 38, WIDTH - 26, 168)
"""Left, top, right and bottom of the axes in a panel."""
LEGEND_ROWS: Final = 3
LEGEND_COLUMNS: Final = 2
LONGEST_NAME: Final = 27
THOUSANDS: Final = 10_000
"""From here on numbers are written in thousands."""
COLOURS: Final = (
    "#2f6fd0", "#d9622b", "#2e9e5b", "#8e4ec6", "#b8860b", "#c2366b", "#138a9e", "#6b7280", "#7a5c3e", "#4b5bd6",
)  # fmt: skip
STYLE: Final = (
    "text{font-family:Inter,'Helvetica Neue',Arial,sans-serif;font-size:11px;fill:#4b5563}"
    ".title{font-size:13px;font-weight:600;fill:#111827}.big{font-size:64px;font-weight:600;fill:#2e9e5b}"
    ".head{font-size:18px;font-weight:600;fill:#111827}.note{font-size:12px}"
    ".grid{stroke:#e5e7eb}.panel{fill:#fff;stroke:#d1d5db}.line{fill:none;stroke-width:1.6;stroke-linejoin:round}"
)

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a panel and its name in the legend."""

    name: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Picture:
    """A panel as it is drawn: `kind` is Grafana's, `note` is shown if there is no data."""

    title: str
    unit: str
    kind: str
    note: str
    lines: tuple[Line, ...]


def drawn(title: str, pictures: Sequence[Picture], seconds: float, step_seconds: float) -> str:
    """Return the dashboard of that title; its axes end at `seconds`, and points farther apart are not joined."""
    rows = math.ceil(len(pictures) / COLUMNS)
    width, height = COLUMNS * (WIDTH + GAP) + GAP, rows * (HEIGHT + GAP) + GAP + 34
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">',
        f"<style>{STYLE}</style>",
        f'<rect width="{width}" height="{height}" fill="#f3f4f6"/>',
        f'<text class="head" x="{GAP + 4}" y="28">{escape(title)}</text>',
    ]
    for number, picture in enumerate(pictures):
        row, column = divmod(number, COLUMNS)
        x, y = GAP + column * (WIDTH + GAP), 34 + GAP + row * (HEIGHT + GAP)
        parts += [f'<g transform="translate({x},{y})">', *_panel(picture, seconds, step_seconds), "</g>"]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _panel(picture: Picture, seconds: float, step_seconds: float) -> Iterable[str]:
    yield f'<rect class="panel" width="{WIDTH}" height="{HEIGHT}" rx="4"/>'
    yield f'<text class="title" x="14" y="22">{escape(picture.title)}</text>'
    lines = [line for line in picture.lines if any(math.isfinite(value) for _, value in line.points)]
    if not lines:
        yield f'<text x="{WIDTH // 2}" y="{HEIGHT // 2}" text-anchor="middle">No data. {escape(picture.note)}</text>'
    elif picture.kind == "stat":
        value = shown(lines[0].points[-1][1], picture.unit)
        yield f'<text class="big" x="{WIDTH // 2}" y="{HEIGHT // 2 + 24}" text-anchor="middle">{value}</text>'
    else:
        yield from _plot(lines, picture.unit, seconds, step_seconds)


def _plot(lines: Sequence[Line], unit: str, seconds: float, step_seconds: float) -> Iterable[str]:
    left, top, right, bottom = PLOT
    ticks = ticks_up_to(max(value for line in lines for _, value in line.points if math.isfinite(value)))
    for tick in ticks:
        y = bottom - (bottom - top) * tick / ticks[-1]
        yield f'<path class="grid" d="M{left} {y:.1f}H{right}"/>'
        yield f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{shown(tick, unit)}</text>'
    for minute in range(int(seconds // 60) + 1):
        x = left + (right - left) * minute * 60 / seconds
        yield f'<text x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">{minute} min</text>'

    def place(point: tuple[float, float]) -> str:
        x = left + (right - left) * point[0] / seconds
        return f"{x:.1f} {bottom - (bottom - top) * point[1] / ticks[-1]:.1f}"

    for number, line in enumerate(lines):
        path = "".join(f"M{'L'.join(map(place, run))}" for run in _runs(line.points, step_seconds))
        yield f'<path class="line" stroke="{COLOURS[number % len(COLOURS)]}" d="{path}"/>'
    yield from _legend(lines)


def _runs(points: Points, step_seconds: float) -> list[list[tuple[float, float]]]:
    """Return the points that are joined; one that is alone is repeated, which draws a dash."""
    runs: list[list[tuple[float, float]]] = []
    for point in points:
        if not math.isfinite(point[1]):
            continue
        if not runs or point[0] - runs[-1][-1][0] > 1.5 * step_seconds:
            runs.append([])
        runs[-1].append(point)
    return [run if len(run) > 1 else [run[0], (run[0][0] + step_seconds / 2, run[0][1])] for run in runs]


def _legend(lines: Sequence[Line]) -> Iterable[str]:
    room = LEGEND_ROWS * LEGEND_COLUMNS
    named = lines if len(lines) <= room else lines[: room - 1]
    for number, line in enumerate(named):
        x, y = _legend_place(number)
        colour = COLOURS[number % len(COLOURS)]
        name = line.name if len(line.name) <= LONGEST_NAME else f"{line.name[: LONGEST_NAME - 1]}…"
        yield f'<path stroke="{colour}" stroke-width="3" d="M{x} {y - 4}h12"/>'
        yield f'<text x="{x + 17}" y="{y}">{escape(name)}</text>'
    if len(named) < len(lines):
        x, y = _legend_place(len(named))
        yield f'<text x="{x + 17}" y="{y}">and {len(lines) - len(named)} more</text>'


def _legend_place(number: int) -> tuple[int, int]:
    row, column = divmod(number, LEGEND_COLUMNS)
    return PLOT[0] - 36 + column * (WIDTH - 30) // LEGEND_COLUMNS, PLOT[3] + 38 + row * 16


def ticks_up_to(largest: float) -> list[float]:
    """Return three to six round numbers from 0 to at least `largest`."""
    if largest <= 0:
        return [0.0, 0.5, 1.0]
    unit = 10.0 ** math.floor(math.log10(largest))
    step = next(unit * part for part in (0.2, 0.25, 0.5, 1, 2) if largest <= unit * part * 5)
    return [step * n for n in range(math.ceil(round(largest / step, 9)) + 1)]


def shown(value: float, unit: str) -> str:
    """Return a value in Grafana's unit `short`, `percentunit`, `s` or `reqps`, as people write it."""
    if unit == "percentunit":
        return f"{value * 100:.4g} %"
    if unit == "s" and 0 < value < 1:
        return f"{value * 1000:.4g} ms"
    suffix = {"s": " s", "reqps": "/s"}.get(unit, "")
    return f"{value:,.4g}{suffix}" if value < THOUSANDS else f"{value / 1000:,.4g}k{suffix}"


def legend_of(template: str, labels: Mapping[str, str]) -> str:
    """Return a line's name: Grafana's `{{label}}` replaced."""
    for name, value in labels.items():
        template = template.replace(f"{{{{{name}}}}}", value)
    return template
