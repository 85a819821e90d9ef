"""helm, bound to one cluster, and the project's chart as a package, as users install it."""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tfdist_cluster import paths, shell, tools
from tfdist_demo.place import Place

CHART: Final = paths.REPOSITORY / "helm/tfdist-operator"
TIMEOUT_SECONDS: Final = 300


@dataclass(frozen=True, slots=True)
class Helm:
    """The program and the kubeconfig it uses."""

    program: Path
    kubeconfig: str

    def run(self, *arguments: str) -> str:
        """Run one command and return what it prints.

        Raises:
            ClusterError: it failed; the message contains its output.
        """
        environment = {"KUBECONFIG": self.kubeconfig}
        return shell.run([self.program, *arguments], env=environment, timeout_seconds=TIMEOUT_SECONDS)

    def package(self, chart: Path = CHART, version: str = "") -> Path:
        """Pack a chart, as one of another version if one is given, and return the archive."""
        folder = paths.State.from_environment().folder("charts")
        options = [f"--version={version}"] if version else []
        output = self.run("package", str(chart), f"--destination={folder}", *options)
        return Path(output.rpartition("saved it to: ")[2].strip())

    def install(self, archive: Path, place: Place, *options: str) -> None:
        """Install a chart or upgrade its release; objects that were made without Helm become part of it."""
        release_options = [f"--namespace={place.system}", f"--set=fullnameOverride={place.controller}"]
        self.run("upgrade", "--install", place.release, str(archive), "--take-ownership", *release_options, *options)


def program() -> Path:
    """Return helm: the one on the path, else one that is built from its Go module."""
    path = shutil.which("helm")
    return Path(path) if path else tools.ensure(paths.State.from_environment(), "helm")


def image_options(images: Mapping[str, str]) -> list[str]:
    """Return the options that set images: value, such as `trainerImage`, and full name with a tag."""
    options = []
    for value, name in images.items():
        repository, _, tag = name.rpartition(":")
        options += ["--set-string", f"{value}.repository={repository},{value}.tag={tag}"]
    return options
