"""Draws the last recovery that `make bench-recovery` measured as docs/images/recovery.svg.

One bar for each member, from the kill to its first step, divided at the events of its log; all values are measured.
`make generate` writes the picture.
"""

import html
import itertools
import json
import pathlib
from typing import Any, Final

ROOT: Final = pathlib.Path(__file__).resolve().parents[3]
SOURCE: Final = ROOT / "hack" / "bench" / "recovery.json"
OUTPUT: Final = ROOT / "docs" / "images" / "recovery.svg"

PARTS: Final = {
    "round": ("noticed, the others stopped, judged", "#c0504d"),
    "rendezvous-complete": ("forked, members found", "#8064a2"),
    "joined": ("TensorFlow connected", "#4f81bd"),
    "restored": ("model made, checkpoint restored", "#4bacc6"),
    "train": ("step traced, compiled and done", "#9bbb59"),
}
"""Events of a member's log, with what lies before each, and its colour."""

WIDTH, LEFT, BAR, GAP, TOP = 900, 90, 34, 16, 64
"""Pixels."""


def main() -> None:
    """Draw."""
    OUTPUT.parent.mkdir(exist_ok=True)
    OUTPUT.write_text(drawn(json.loads(SOURCE.read_text(encoding="utf-8"))), encoding="utf-8")


def drawn(results: dict[str, Any]) -> str:
    """Return the picture of `timeline` of the results, as SVG."""
    bars = bars_of(results["timeline"])
    end = max(at[-1] for at in bars.values())
    scale = (WIDTH - LEFT - 30) / end
    height = TOP + len(bars) * (BAR + GAP) + 28 + 20 * len(PARTS) + 10
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" '
        'font-size="13" fill="#222">',
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>',
        f'<text x="14" y="26" font-size="16">From kill -9 of a program to the next step: {end:.2f} s</text>',
        f'<text x="14" y="46" fill="#555">{html.escape(_machine(results))}</text>',
    ]
    for row, (member, at) in enumerate(bars.items()):
        y = TOP + row * (BAR + GAP)
        lines.append(f'<text x="14" y="{y + 22}">{html.escape(member)}</text>')
        for (begin, until), (_, colour) in zip(itertools.pairwise([0.0, *at]), PARTS.values(), strict=True):
            x, width = LEFT + begin * scale, max((until - begin) * scale, 1)
            lines.append(f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{BAR}" fill="{colour}"/>')
            if width > 40:  # noqa: PLR2004  pixels that a number needs
                middle = x + width / 2
                text = f"{until - begin:.2f}"
                lines.append(f'<text x="{middle:.1f}" y="{y + 22}" fill="#fff" text-anchor="middle">{text}</text>')
    lines += [*_axis(end, scale, TOP + len(bars) * (BAR + GAP)), *_legend(TOP + len(bars) * (BAR + GAP) + 40), "</svg>"]
    return "\n".join(lines) + "\n"


def bars_of(timeline: list[dict[str, Any]]) -> dict[str, list[float]]:
    """Return for each member the seconds from the kill to each event of `PARTS`, in order.

    Raises:
        ValueError: a member lacks one of them.
    """
    by_member: dict[str, dict[str, float]] = {}
    for entry in timeline:
        by_member.setdefault(entry["member"], {})[entry["event"]] = entry["seconds"]
    for member, events in by_member.items():
        if missing := [event for event in PARTS if event not in events]:
            raise ValueError(f"{SOURCE.name}: timeline: {member} lacks {missing}; run make bench-recovery again")
    return {member: [events[event] for event in PARTS] for member, events in by_member.items()}


def _machine(results: dict[str, Any]) -> str:
    machine, all_ = results["machine"], results["inPlaceSeconds"]
    return (
        f"the last of {len(all_['all'])} kills (median {all_['median']:.1f} s, worst {all_['worst']:.1f} s); "
        f"two workers on {machine['cpus']} cores"
    )


def _axis(end: float, scale: float, y: int) -> list[str]:
    step = next(size for size in (0.1, 0.2, 0.5, 1, 2, 5, 10, 60) if end / size <= 10)  # noqa: PLR2004  marks
    marks = [number * step for number in range(int(end / step) + 1)]
    return [
        f'<text x="{LEFT + at * scale:.1f}" y="{y + 10}" fill="#555" text-anchor="middle">{at:g} s</text>'
        for at in marks
    ]


def _legend(y: int) -> list[str]:
    lines = []
    for row, (text, colour) in enumerate(PARTS.values()):
        lines.append(f'<rect x="{LEFT}" y="{y + 20 * row - 11}" width="12" height="12" fill="{colour}"/>')
        lines.append(f'<text x="{LEFT + 20}" y="{y + 20 * row}">{html.escape(text)}</text>')
    return lines


if __name__ == "__main__":
    main()
