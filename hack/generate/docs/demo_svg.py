"""Draws the end of a recorded `make demo` as docs/demo.svg.

`script -qec "make demo" recording && .venv/bin/python hack/generate/docs/demo_svg.py recording`. What a progress bar
overwrote is left out; the picture holds what a person sees last, and nothing that the demo did not print.
"""

import io
import pathlib
import re
import sys
from typing import Final

from rich.console import Console
from rich.text import Text

WIDTH: Final = 108
LINES: Final = 30
OUTPUT: Final = pathlib.Path(__file__).resolve().parents[3] / "docs" / "demo.svg"

# rich's own format loads a font from the network; a README's picture must not
FORMAT: Final = """<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, monospace; font-size: {char_height}px;
line-height: {line_height}px; font-variant-east-asian: full-width; }} {styles}</style>
<defs><clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" /></clipPath>{lines}</defs>
{chrome}<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}<g class="{unique_id}-matrix">{matrix}</g></g></svg>
"""


def shown(recording: str) -> list[str]:
    """Return the lines that are on the terminal in the end: of a line that was overwritten, what came last."""
    lines = recording.replace("\r\n", "\n").split("\n")
    lines = [line.rstrip("\r").rsplit("\r", 1)[-1] for line in lines]
    return [re.sub(r"\x1b\[[0-9;?]*[A-LN-Za-ln-z]", "", line) for line in lines]  # all but colours


def main() -> None:
    """Draw the recording that the first argument names."""
    recording = pathlib.Path(sys.argv[1]).read_text(encoding="utf-8")
    lines = [line for line in shown(recording) if not line.startswith(("Script ", "real", "user", "sys"))]
    end = next((i for i, line in enumerate(lines) if line.startswith("What to try next")), len(lines))
    last = [line for line in lines[:end] if line.strip()][-LINES:]
    console = Console(record=True, width=WIDTH, file=io.StringIO())
    console.print(Text.from_ansi("\n".join(["$ make demo", "...", *last])))
    OUTPUT.write_text(console.export_svg(title="make demo", code_format=FORMAT), encoding="utf-8")


if __name__ == "__main__":
    main()
