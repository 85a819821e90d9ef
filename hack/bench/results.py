"""Figures with their targets: what a row of the table is, and when a target is met."""

import statistics
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Target:
    """The largest figure allowed: as a part of the peer's, or on its own."""

    ratio: float | None = None
    value: float | None = None
    text: str = ""

    def met(self, ours: float, ratio: float | None) -> bool | None:
        """Return whether our figure meets the target, or None if there is none or nothing to compare with."""
        if self.value is not None:
            return ours <= self.value
        return None if self.ratio is None or ratio is None else ratio <= self.ratio


NO_TARGET = Target()


@dataclass(frozen=True, slots=True)
class Row:
    """One benchmark: our figure and the peer's, smaller is better."""

    name: str
    ours: float | None
    peer: float | None
    unit: str
    target: Target = NO_TARGET
    note: str = ""
    by_turns: float | None = None
    """The ratio, if the two took turns: see `Samples.ratio`."""

    @property
    def ratio(self) -> float | None:
        """Our figure as a part of the peer's."""
        if self.by_turns is not None:
            return self.by_turns
        return self.ours / self.peer if self.ours is not None and self.peer else None

    def to_json(self) -> dict[str, Any]:
        """Return the row as it is stored."""
        met = None if self.ours is None else self.target.met(self.ours, self.ratio)
        return {
            "name": self.name,
            "ours": _round(self.ours),
            "peer": _round(self.peer),
            "unit": self.unit,
            "ratio": _round(self.ratio),
            "target": self.target.text or None,
            "met": met,
            "note": self.note or None,
        }


@dataclass(slots=True)
class Samples:
    """Figures of repeated measurements by name; the reported figure is their median."""

    by_name: dict[str, list[float]] = field(default_factory=dict)

    def add(self, figures: dict[str, float]) -> None:
        """Take in the figures of one measurement."""
        for name, figure in figures.items():
            self.by_name.setdefault(name, []).append(figure)

    def median(self, name: str) -> float | None:
        """Return the median of a figure, or None if it was never measured."""
        return median(self.by_name.get(name, ()))

    def ratio(self, ours: str, peer: str) -> float | None:
        """Return the median over all turns of one figure as a part of the other, or None if there are none.

        The two figures of a turn were measured one right after the other: a machine that is faster at one time than at
        another changes both, if it would move their medians by different amounts.
        """
        pairs = zip(self.by_name.get(ours, ()), self.by_name.get(peer, ()), strict=True)
        return median(mine / theirs for mine, theirs in pairs)

    def spread(self, name: str) -> str:
        """Return the spread of the measurements as text."""
        values = self.by_name.get(name, [])
        return f"{min(values):.3g}-{max(values):.3g}" if len(values) > 1 else ""


def median(figures: Iterable[float]) -> float | None:
    """Return the median, or None of nothing."""
    found = list(figures)
    return statistics.median(found) if found else None


def _round(figure: float | None) -> float | None:
    return None if figure is None else float(f"{figure:.4g}")
