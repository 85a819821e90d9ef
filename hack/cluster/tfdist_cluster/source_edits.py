"""Edits of a module's sources before its build: they replace constants that tests must configure."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tfdist_cluster.errors import ClusterError


@dataclass(frozen=True, slots=True)
class Edit:
    """Replaces a text that a file has exactly once."""

    file: str
    old: str
    new: str


def copy(source: Path, target: Path, edits: Sequence[Edit]) -> None:
    """Copy the sources of a module, which the module cache has without permission to write, and edit the copy.

    Raises:
        ClusterError: a text is missing, or not unique: the edit is for another version.
    """
    shutil.copytree(source, target, copy_function=shutil.copyfile)
    for path in (target, *target.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    for edit in edits:
        path = target / edit.file
        text = path.read_text()
        if text.count(edit.old) != 1:
            raise ClusterError(f"{source / edit.file} has {text.count(edit.old)} times, not once: {edit.old}")
        path.write_text(text.replace(edit.old, edit.new))
