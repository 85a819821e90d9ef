"""The built images: their content, their user, and that they start. Prints sizes and times."""

import json
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tfdist_cluster import lock, shell
from tfdist_images import build, builders, content, store
from tfdist_images.content import RECIPES

pytestmark = pytest.mark.long

CONTROLLER_LIMIT_BYTES = 200_000_000
SHELLS = {"sh", "ash", "bash", "dash", "ksh", "zsh", "busybox", "toybox", "perl"}
INSTALLERS = {"apt", "apt-get", "dpkg", "pip", "pip3", "curl", "wget", "su", "mount", "tar"}
COMPILERS = {"cc", "gcc", "c++", "g++", "clang", "as", "ld", "make", "go", "rustc", "nvcc"}
IMPORTS = {
    "controller": "import kopf, tfdist_operator.app",
    "trainer": "import tensorflow, tfdist_trainer",
    # On a machine without a GPU it logs that and computes on the CPU.
    "trainer-gpu": "import tensorflow as tf, tfdist_trainer; assert tf.test.is_built_with_cuda(); tf.zeros([1]) + 1",
}
SCRIPT = "import os; {}; print(os.getuid())"
# With the mounts of every container: TensorFlow reads random numbers and the processors from them when it starts.
CONTAINED = """
for folder in dev proc sys; do
    mkdir -p "$0/$folder" && mount --rbind "/$folder" "$0/$folder"
done
exec chroot --userspec=12345:0 "$0" "$@"
"""


@pytest.fixture(scope="module")
def images() -> dict[str, build.Image]:
    return {image.recipe.name: image for image in build.build(content.DEFAULT)}


@pytest.fixture(params=IMPORTS)
def image(request: pytest.FixtureRequest, images: dict[str, build.Image]) -> build.Image:
    name = request.param
    return images[name] if name in images else build.build([RECIPES[name]])[0]


def configuration(archive: Path) -> dict[str, dict[str, object]]:
    with tarfile.open(archive) as tar:
        manifest = json.load(tar.extractfile("manifest.json") or pytest.fail("no manifest"))
        return dict(json.load(tar.extractfile(manifest[0]["Config"]) or pytest.fail("no configuration")))


def test_it_runs_as_a_user_without_a_name_and_has_labels(image: build.Image) -> None:
    config = configuration(image.archive)["config"]
    assert config["User"] == "65532:65532"
    labels = config["Labels"]
    assert isinstance(labels, dict)
    assert labels["org.opencontainers.image.licenses"] == "Apache-2.0"


def files(archive: Path) -> dict[str, int]:
    """Return the sizes of all files and links of an image's layers by their paths."""
    found: dict[str, int] = {}
    with tarfile.open(archive) as tar:
        manifest = json.load(tar.extractfile("manifest.json") or pytest.fail("no manifest"))
        for name in manifest[0]["Layers"]:
            with tarfile.open(fileobj=tar.extractfile(name)) as layer:
                found |= {f"/{file.name.removeprefix('./')}": file.size for file in layer if not file.isdir()}
    return found


def programs(archive: Path) -> set[str]:
    """Return the names of the programs in the folders of an image's PATH."""
    return {Path(path).name for path in files(archive) if Path(path).parent.name in {"bin", "sbin"}}


def test_the_controller_is_small(images: dict[str, build.Image]) -> None:
    size = sum(files(images["controller"].archive).values())
    print(f"controller: {size / 1e6:.0f} MB")
    assert size < CONTROLLER_LIMIT_BYTES


def test_the_controller_s_image_has_python_and_no_shell(images: dict[str, build.Image]) -> None:
    there = programs(images["controller"].archive)
    assert "tfdist-controller" in there
    assert "python3.11" in there
    assert not there & SHELLS
    assert not there & INSTALLERS


def test_no_image_has_a_compiler(image: build.Image) -> None:
    assert not programs(image.archive) & COMPILERS


def test_the_controller_s_image_lists_the_packages_of_its_files_for_scanners(images: dict[str, build.Image]) -> None:
    listed = {Path(path).name for path in files(images["controller"].archive) if "/dpkg/status.d/" in path}
    assert {"libc6", "libssl3"} <= listed


@pytest.fixture
def root(image: build.Image) -> Iterator[Path]:
    """The image's file system, mounted by buildah, which needs no cluster."""
    if builders.choose().builder != "buildah":
        pytest.skip("built by Docker")
    tool = [str(word) for word in builders._buildah()]
    with lock.exclusive(store.folder("images") / "lock"):
        container = shell.run([*tool, "from", "--pull-never", f"localhost/{image.name}"]).strip()
        try:
            yield Path(shell.run([*tool, "mount", container]).strip())
        finally:
            shell.run([*tool, "rm", container])


def test_it_holds_bytecode_and_no_installer_but_that_of_a_jobs_packages(root: Path, image: build.Image) -> None:
    packages = next((root / "venv/lib").glob("python3.*")) / "site-packages"
    found = [name for name in ("pip", "setuptools", "wheel") if (packages / name).exists()]
    assert found == ([] if image.recipe.name == "controller" else ["pip"]), "training.requirements of a job needs pip"
    assert any((packages / "tfdist/__pycache__").glob("contract.*.pyc"))


def test_it_starts_as_any_user(root: Path, image: build.Image) -> None:
    environment = {"HOME": "/tmp", "LOGNAME": "tfdist", "TF_CPP_MIN_LOG_LEVEL": "2"}
    started = time.monotonic()
    python = ["/venv/bin/python", "-c", SCRIPT.format(IMPORTS[image.recipe.name])]
    printed = shell.run(["unshare", "--mount", "sh", "-c", CONTAINED, root, *python], env=environment)
    print(f"{image.name} starts in {time.monotonic() - started:.1f} s")
    assert printed.strip() == "12345"


def test_a_second_build_builds_nothing(images: dict[str, build.Image]) -> None:
    before = {name: image.archive.stat().st_mtime_ns for name, image in images.items()}
    again = build.build([RECIPES[name] for name in images])
    if {image.name for image in again} != {image.name for image in images.values()}:
        pytest.skip("the sources were edited meanwhile")
    assert {image.recipe.name: image.archive.stat().st_mtime_ns for image in again} == before
