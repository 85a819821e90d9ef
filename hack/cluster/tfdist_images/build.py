"""Builds what changed: from the working tree to archives named after their content.

Everything happens under one lock. The files are copied first and the copy is hashed and built, so edits during a
build neither break the image nor change its content.
"""

import contextlib
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from tfdist_cluster import console, lock
from tfdist_cluster.content import remove
from tfdist_images import builders, content, programs, store, wheels
from tfdist_images.content import Recipe

KEPT_ARCHIVES: Final = 3
"""Archives kept for each image: the newest, and archives of other clones or earlier commits."""


@dataclass(frozen=True, slots=True)
class Image:
    """An image as it would be built now."""

    recipe: Recipe
    digest: str

    @property
    def name(self) -> str:
        """The name it carries in archives and clusters."""
        return content.image_name(self.recipe, self.digest)

    @property
    def archive(self) -> Path:
        """Path of its archive, which need not exist."""
        return store.folder("images") / f"{self.recipe.name}-{self.digest}.tar"


def images_now(recipes: Sequence[Recipe], root: Path = store.ROOT) -> list[Image]:
    """Return the images that the working tree describes; builds nothing."""
    base = builders.choose().base
    return [
        Image(recipe, content.content_hash(root, content.input_files(root, recipe), base=base, target=recipe.target))
        for recipe in recipes
    ]


def build(recipes: Sequence[Recipe], root: Path = store.ROOT) -> list[Image]:
    """Build the images whose archives are not there, several at a time, and return all."""
    with lock.exclusive(store.folder("images") / "lock"), _snapshot(recipes, root) as context:
        images = images_now(recipes, context)
        missing = [image for image in images if not image.archive.exists()]
        for image in images:
            if image not in missing:
                console.info(f"image {image.name} is up to date")
        if missing:
            _build_missing(missing, context)
    return images


@contextlib.contextmanager
def _snapshot(recipes: Sequence[Recipe], root: Path) -> Iterator[Path]:
    """Yield a folder with a copy of exactly the files that the images are made of."""
    for stale in store.folder("images").glob(".context-*"):  # of a killed build
        remove(stale)
    files = sorted({file for recipe in recipes for file in content.input_files(root, recipe)})
    with tempfile.TemporaryDirectory(dir=store.folder("images"), prefix=".context-") as folder:
        content.stage(root, files, Path(folder))
        yield Path(folder)


def _build_missing(images: Sequence[Image], context: Path) -> None:
    """Build the base while the wheels download, then the images in parallel."""
    builder = builders.builder_of(builders.choose())
    tasks: list[Callable[[], None]] = [builder.prepare]
    if builder.uses_wheels:
        tasks.append(lambda: _download_wheels(images, context))
    in_parallel(tasks)
    revision = (programs.output(["git", "-C", store.ROOT, "rev-parse", "HEAD"]) or "unknown").strip()
    in_parallel([partial(_build_one, builder, image, context, revision) for image in images])
    for image in images:
        _prune(builder, image)


def _download_wheels(images: Sequence[Image], context: Path) -> None:
    for requirements in (content.BUILD_REQUIREMENTS, *(image.recipe.requirements for image in images)):
        wheels.download(context / requirements)


def release() -> None:
    """Unmount and remove what a killed build left; the images and caches stay."""
    with lock.exclusive(store.folder("images") / "lock"):
        builders.builder_of(builders.choose()).release()


def _build_one(builder: builders.Builder, image: Image, context: Path, revision: str) -> None:
    with (
        console.step(f"image {image.name}", expected_seconds=image.recipe.expected_seconds),
        store.complete_or_absent(image.archive) as archive,
    ):
        builder.build(context, image.recipe, image.name, {"REVISION": revision})
        builder.export(image.name, archive)


def in_parallel(tasks: Sequence[Callable[[], None]]) -> None:
    """Run the tasks in threads; the first error is raised when all have ended."""
    with ThreadPoolExecutor(max_workers=len(tasks)) as pool:
        for future in [pool.submit(task) for task in tasks]:
            future.result()


def _prune(builder: builders.Builder, image: Image) -> None:
    """Remove all but the newest archives of an image, and the builder's copies of the others."""
    recipe = image.recipe
    archives = store.folder("images").glob(f"{recipe.name}-{'?' * content.HASH_LENGTH}.tar")
    by_age = sorted(archives, key=lambda path: path.stat().st_mtime, reverse=True)
    for archive in by_age[KEPT_ARCHIVES:]:
        archive.unlink()
    digests = [path.stem.removeprefix(f"{recipe.name}-") for path in by_age[:KEPT_ARCHIVES]]
    builder.forget(recipe.repository, [content.image_name(recipe, digest) for digest in digests])
