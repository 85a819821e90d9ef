"""The command `tfdist`: how long it takes to start, and to check many documents."""

import tempfile
from pathlib import Path

from bench import cli_validate
from bench.results import Row


def run() -> list[Row]:
    """Return the best of some runs of whole processes; the peer has no such command."""
    with tempfile.TemporaryDirectory() as folder:
        many = Path(folder, "many.yaml")
        many.write_text("---\n".join(cli_validate.JOB.format(number=i) for i in range(cli_validate.DOCUMENTS)))
        start = cli_validate.best("--help")
        check = cli_validate.best("validate", str(many))
    return [
        Row("command line: `tfdist --help`", start, None, "s"),
        Row(f"command line: `tfdist validate`, {cli_validate.DOCUMENTS:,} documents", check, None, "s"),
    ]
