"""What an image is made of, and the name that follows from it.

Pure but for reading files. The invariant: the files that are hashed are the files that are built, because the
build sees a copy of exactly these and not the working tree.
"""

import hashlib
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

HASH_LENGTH: Final = 12

BUILD_REQUIREMENTS: Final = "requirements/build.txt"
"""The build backend of the project's own distributions, locked."""

IGNORED_SUFFIXES: Final = (".pyc", ".pyo", ".swp", ".orig", ".rej", "~")


@dataclass(frozen=True, slots=True)
class Recipe:
    """One image: its name, how it is built, and the paths (files or folders) that go into it."""

    name: str
    repository: str
    dockerfile: str
    target: str | None
    requirements: str
    sources: tuple[str, ...]
    expected_seconds: int
    """How long a first build takes on two cores."""

    @property
    def inputs(self) -> tuple[str, ...]:
        """Every path that the build reads."""
        return (self.dockerfile, BUILD_REQUIREMENTS, self.requirements, *self.sources)


_SDK: Final = ("sdk/pyproject.toml", "sdk/tfdist")
_TRAINER: Final = (
    *_SDK,
    "trainer_image/pyproject.toml",
    "trainer_image/tfdist_trainer_keras.pth",
    "trainer_image/tfdist_launch",
    "trainer_image/tfdist_trainer",
)

CONTROLLER: Final = Recipe(
    name="controller",
    repository="tfdist/controller",
    dockerfile="Dockerfile",
    target=None,
    requirements="requirements/operator.txt",
    sources=(*_SDK, "operator/image_root.py", "operator/pyproject.toml", "operator/tfdist_operator"),
    expected_seconds=20,
)
TRAINER: Final = Recipe(
    name="trainer",
    repository="tfdist/trainer",
    dockerfile="trainer_image/Dockerfile",
    target="cpu",
    requirements="requirements/trainer-cpu.txt",
    sources=_TRAINER,
    expected_seconds=90,
)
TRAINER_GPU: Final = Recipe(
    name="trainer-gpu",
    repository="tfdist/trainer-gpu",
    dockerfile="trainer_image/Dockerfile",
    target="gpu",
    requirements="requirements/trainer-gpu.txt",
    sources=_TRAINER,
    expected_seconds=360,
)
RECIPES: Final = {recipe.name: recipe for recipe in (CONTROLLER, TRAINER, TRAINER_GPU)}
DEFAULT: Final = (CONTROLLER, TRAINER)


class MissingInputError(Exception):
    """A path that an image is made of does not exist."""


def input_files(root: Path, recipe: Recipe) -> list[str]:
    """Return the files that go into an image, relative to `root`, sorted."""
    paths: set[str] = set()
    for entry in recipe.inputs:
        path = root / entry
        if path.is_dir():
            paths.update(str(file.relative_to(root)) for file in path.rglob("*") if file.is_file())
        elif path.is_file():
            paths.add(entry)
        else:
            raise MissingInputError(f"{path} is missing, and the image {recipe.repository} is made of it")
    return sorted(file for file in paths if not _is_ignored(file))


def _is_ignored(file: str) -> bool:
    """Return whether a file is left by a tool: a cache, a hidden file, an editor's copy."""
    parts = Path(file).parts
    return file.endswith(IGNORED_SUFFIXES) or any(
        part == "__pycache__" or part.startswith(".") or part.endswith(".egg-info") for part in parts
    )


def content_hash(root: Path, files: Iterable[str], *, base: str, target: str | None) -> str:
    """Return the hash of names, contents and executable bits of `files`, and of the base and the target."""
    digest = hashlib.sha256(f"{base}\n{target}\n".encode())
    for file in files:
        path = root / file
        executable = bool(path.stat().st_mode & 0o100)
        digest.update(f"{file}\0{executable}\0{path.stat().st_size}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:HASH_LENGTH]


def stage(root: Path, files: Iterable[str], context: Path) -> None:
    """Copy `files` into the empty folder `context`, with their times, which builders' caches compare."""
    for file in files:
        copy = context / file
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(root / file, copy)


def image_name(recipe: Recipe, digest: str, registry: str | None = None) -> str:
    """Return the image's full name; `registry` is what the user's registry and path are, without a slash at the end."""
    prefix = f"{registry.rstrip('/')}/" if registry else ""
    return f"{prefix}{recipe.repository}:{digest}"
