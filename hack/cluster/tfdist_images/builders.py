"""The two programs that build images: buildah, which needs no daemon, and a Docker engine.

Both take the same Dockerfiles and leave a `docker-archive`. Docker is used if its engine has or can pull the
base image; everywhere else buildah builds upon a base made here, with its storage inside the cache.
"""

import json
import os
import shutil
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Protocol

from tfdist_cluster import console, shell
from tfdist_cluster.errors import ClusterError
from tfdist_images import base, programs, store, wheels
from tfdist_images.content import Recipe

DEFAULT_BASE: Final = "python:3.11-slim-bookworm"
LOCAL: Final = "localhost/"
"""Images under this name live in buildah's storage alone."""


class Builder(Protocol):
    """The operations of a program that builds images."""

    @property
    def uses_wheels(self) -> bool:
        """Whether wheels are to be downloaded before, because pip cannot or need not while it builds."""

    def prepare(self) -> None:
        """Make or fetch the base that all builds need."""

    def release(self) -> None:
        """Unmount and remove what a killed build left working."""

    def build(self, context: Path, recipe: Recipe, name: str, arguments: Mapping[str, str]) -> None:
        """Build the image `name` from the folder `context`."""

    def export(self, name: str, archive: Path) -> None:
        """Write the image as an archive that `docker load` and containerd read."""

    def push(self, archive: Path, source: str, name: str) -> None:
        """Push the image `source` of an archive to a registry under `name`."""

    def forget(self, repository: str, kept: Collection[str]) -> None:
        """Remove the images of a repository but those `kept`, if they are the project's own to remove."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Which builder works here, and upon which base: part of every image's name, so it is remembered."""

    builder: str
    base: str


def choose(environment: Mapping[str, str] = os.environ) -> Choice:
    """Return the earlier choice, or choose by what the machine has; `BASE_IMAGE` and `IMAGE_BUILDER` override it."""
    base_override, builder_override = environment.get("BASE_IMAGE"), environment.get("IMAGE_BUILDER")
    if base_override or builder_override:
        builder = builder_override or ("docker" if _engine_answers() else "buildah")
        return Choice(builder, base_override or (DEFAULT_BASE if builder == "docker" else base.IMAGE))
    path = store.folder("images") / "builder.json"
    if path.exists():
        stored_choice = Choice(**json.loads(path.read_text()))
        if not stored_choice.base.startswith(LOCAL) or stored_choice.base == base.IMAGE:
            return stored_choice
    choice = Choice("docker", DEFAULT_BASE) if _engine_has(DEFAULT_BASE) else Choice("buildah", base.IMAGE)
    with store.complete_or_absent(path) as partial:
        partial.write_text(json.dumps(asdict(choice)))
    return choice


def builder_of(choice: Choice) -> Builder:
    """Return the builder that `choice` names."""
    if choice.builder == "docker":
        return Docker(choice.base)
    if choice.builder == "buildah":
        return Buildah(choice.base)
    raise ClusterError(f"IMAGE_BUILDER is {choice.builder!r}; it can be docker or buildah")


def _engine_answers() -> bool:
    return shutil.which("docker") is not None and shell.succeeds(["docker", "version"], timeout_seconds=10)


def _engine_has(image: str) -> bool:
    """Return whether the Docker engine has or can pull the image; false if no registry is reachable."""
    if not _engine_answers():
        return False
    if shell.succeeds(["docker", "image", "inspect", image]):
        return True
    console.info(f"asking the Docker engine for {image} (at most 2 min)")
    return shell.succeeds(["docker", "pull", "--quiet", image], timeout_seconds=120)


@dataclass(frozen=True, slots=True)
class Docker:
    """Builds with a Docker engine, BuildKit or not; pip reads the index that the machine's pip would."""

    base: str
    uses_wheels: bool = False

    def prepare(self) -> None:
        """Do nothing: the engine pulls the base, pip downloads while it builds."""

    def release(self) -> None:
        """Do nothing: the engine manages its own cache."""

    def build(self, context: Path, recipe: Recipe, name: str, arguments: Mapping[str, str]) -> None:
        """Run `docker build`."""
        index = os.environ.get("PIP_INDEX_URL", "")
        shell.run(
            ["docker", "build", *_common(context, recipe, name, {**arguments, "PIP_INDEX_URL": index}, self.base)],
            log=store.log(f"build-{recipe.name}"),
        )

    def export(self, name: str, archive: Path) -> None:
        """Run `docker save`."""
        shell.run(["docker", "save", "--output", archive, name], log=store.log(f"export-{_word(name)}"))

    def push(self, archive: Path, source: str, name: str) -> None:
        """Load, tag and push."""
        log = store.log(f"push-{_word(name)}")
        shell.run(["docker", "load", "--input", archive], log=log)
        shell.run(["docker", "tag", source, name], log=log)
        shell.run(["docker", "push", name], log=log)

    def forget(self, repository: str, kept: Collection[str]) -> None:
        """Do nothing: the engine's images are its owner's."""


@dataclass(frozen=True, slots=True)
class Buildah:
    """Builds without a daemon, as root, in chroots; storage and run state are in the cache."""

    base: str
    uses_wheels: bool = True

    def prepare(self) -> None:
        """Import the base made here unless it is there, and remove what a killed build left working."""
        programs.need({"buildah": "buildah"})
        self.release()
        if self.base.startswith(LOCAL) and not self._has(self.base):
            archive = base.archive()
            with console.step("base image: into buildah's storage", expected_seconds=10):
                dockerfile = archive.with_suffix(".Dockerfile")
                dockerfile.write_text(base.DOCKERFILE)
                self._run("bud", "--isolation=chroot", f"--file={dockerfile}", f"--tag={self.base}", archive.parent,
                          log=store.log("base-import"))  # fmt: skip

    def release(self) -> None:
        """Remove all working containers, which unmounts them; outside a build there are none."""
        if shutil.which("buildah"):
            self._run("rm", "--all", log=store.log("buildah-release"))

    def build(self, context: Path, recipe: Recipe, name: str, arguments: Mapping[str, str]) -> None:
        """Run `buildah bud` with cached layers, the wheels mounted at /wheels."""
        pull = "--pull-never" if self.base.startswith(LOCAL) else "--pull"
        options = ["--layers", "--isolation=chroot", pull, "--format=docker", f"--volume={wheels.folder()}:/wheels:ro"]
        common = _common(context, recipe, name, arguments, self.base)
        self._run("bud", *options, *common, log=store.log(f"build-{recipe.name}"))

    def export(self, name: str, archive: Path) -> None:
        """Run `buildah push` into a docker-archive."""
        self._run("push", "--quiet", name, f"docker-archive:{archive}:{name}", log=store.log(f"export-{_word(name)}"))

    def push(self, archive: Path, source: str, name: str) -> None:
        """Read the archive back, which the storage may no longer hold, and push it."""
        log = store.log(f"push-{_word(name)}")
        self._run("pull", f"docker-archive:{archive}", log=log)
        self._run("push", source, f"docker://{name}", log=log)

    def forget(self, repository: str, kept: Collection[str]) -> None:
        """Remove the names and what only they held; the layers that later builds start from stay."""
        prefix = f"{LOCAL}{repository}:"
        output = programs.output([*_buildah(), "images", "--format={{.Name}}:{{.Tag}}"]) or ""
        for name in output.split():
            if name.startswith(prefix) and name.removeprefix(LOCAL) not in kept:
                self._run("rmi", name, log=store.log(f"forget-{_word(repository)}"))

    def _has(self, image: str) -> bool:
        return shell.succeeds([*_buildah(), "inspect", "--type=image", image])

    def _run(self, *arguments: str | Path, log: Path) -> None:
        shell.run([*_buildah(), *arguments], log=log, env=_BUILDAH_ENVIRONMENT)


_BUILDAH_ENVIRONMENT: Final = {"STORAGE_DRIVER": os.environ.get("STORAGE_DRIVER", "overlay")}


def _buildah() -> list[str | Path]:
    storage = store.folder("images/storage")
    return ["buildah", "--root", storage / "root", "--runroot", storage / "run"]


def _common(
    context: Path, recipe: Recipe, name: str, arguments: Mapping[str, str], base_image: str
) -> list[str | Path]:
    """Return the arguments that docker and buildah share."""
    pairs = build_arguments(recipe, base_image, arguments)
    target = [f"--target={recipe.target}"] if recipe.target else []
    return [
        *(f"--build-arg={key}={value}" for key, value in pairs.items()),
        *target, f"--file={context / recipe.dockerfile}", f"--tag={name}", context,
    ]  # fmt: skip


def build_arguments(recipe: Recipe, base_image: str, more: Mapping[str, str]) -> dict[str, str]:
    """Return the build arguments of an image; a target of the trainer installs what its device needs."""
    device = {"DEVICE": recipe.target} if recipe.target else {}
    return {"BASE_IMAGE": base_image, **device, **more}


def _word(name: str) -> str:
    """Return the image's name as a file name."""
    return name.replace("/", "-").replace(":", "-")
