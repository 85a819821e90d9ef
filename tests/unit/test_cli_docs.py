"""The examples of docs/cli.md are what the command prints: each is a part of a text in `golden_cli/`.

A comment before an example names the text: `<!-- golden: jobs-80 -->`. A line `...` stands for lines that are left out.
"""

import pathlib
import re
from collections.abc import Iterator
from typing import Final

import pytest
from support.transcripts import GOLDEN

PAGE: Final = pathlib.Path(__file__).parents[2] / "docs/cli.md"
EXAMPLE: Final = re.compile(
    r"(?:<!-- golden: (?P<name>[\w-]+) -->\n)?^```\n(?P<text>\$ tfdist .*?)^```$", re.MULTILINE | re.DOTALL
)
NEED_PODS: Final = ("logs", "shell", "attach", "run", "render", "convert")
"""Commands whose examples show files, terminals or pods that the texts do not have."""


def examples() -> Iterator[tuple[str | None, str]]:
    """Yield the examples that begin with a command: the name of the text, and the example."""
    return ((found["name"], found["text"]) for found in EXAMPLE.finditer(PAGE.read_text(encoding="utf-8")))


CAPTURED: Final = [(name, text) for name, text in examples() if name]


@pytest.mark.parametrize(("name", "text"), CAPTURED, ids=[text.splitlines()[0][9:] for _, text in CAPTURED])
def test_an_example_is_what_the_command_prints(name: str, text: str) -> None:
    lines = [r"(?:.*\n)+?" if line == "..." else re.escape(f"{line}\n") for line in text.splitlines()]

    output = (GOLDEN / f"{name}.txt").read_text(encoding="utf-8")

    assert re.search(f"^{''.join(lines)}", output, re.MULTILINE), output


def test_each_other_example_is_of_a_command_that_needs_pods_or_files() -> None:
    commands = [text.split()[2] for name, text in examples() if name is None]

    assert sorted({*commands} - {*NEED_PODS}) == []
    assert len(CAPTURED) > len(commands)
