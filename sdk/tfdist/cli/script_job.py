"""The job of a script that has no manifest: `tfdist run --local train.py --workers 2`."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from tfdist.api.resource import API_VERSION, KIND
from tfdist.cli import documents
from tfdist.cli.documents import Document
from tfdist.cli.errors import CommandError

_SUFFIX: Final = ".py"
_NAME_CHARACTERS: Final = 40


def is_script(path: str) -> bool:
    """Return whether `path` is a Python script, and no manifest."""
    return path.endswith(_SUFFIX)


def script_job(path: str, arguments: Sequence[str], workers: int) -> list[Document]:
    """Return the document of a job that runs the script in `workers` replicas, with `arguments`.

    An exception ends the job at once: there is nothing to resume from, and the user is there to correct it.

    Raises:
        CommandError: there is no such file.
    """
    script = Path(path)
    if not script.is_file():
        raise CommandError(f"{path}: no such file")
    manifest: dict[str, Any] = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": job_name(script.stem)},
        "spec": {
            "training": {"script": str(script.resolve()), **({"args": list(arguments)} if arguments else {})},
            "worker": {"replicas": workers},
            "runPolicy": {"backoffLimit": 0},
        },
    }
    return list(documents.parse(json.dumps(manifest).encode(), path))


def job_name(stem: str) -> str:
    """Return a name of a job that resembles the name of a file."""
    words = re.findall("[a-z0-9]+", stem.lower())
    name = "-".join(words)[:_NAME_CHARACTERS].strip("-")
    return name if name[:1].isalpha() else f"script-{name}".rstrip("-")
