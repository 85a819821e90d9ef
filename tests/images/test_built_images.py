"""The images as they are built: what is in them, who runs them, and that they start. Prints sizes and times."""

import json
import subprocess
import tarfile
import time
from pathlib import Path

import pytest

from tfdist_cluster import lock
from tfdist_images import build, builders, content, store
from tfdist_images.content import CONTROLLER, RECIPES, Recipe

pytestmark = pytest.mark.long

CONTROLLER_LIMIT_BYTES = 200_000_000
IMPORTS = {
    "controller": "import kopf, tfdist_operator.app",
    "trainer": "import tensorflow, tfdist_trainer",
}
SCRIPT = "import os, sys; sys.path[:] = [p for p in sys.path if p]; {}; print(os.getuid())"


@pytest.fixture(scope="module")
def images() -> dict[str, build.Image]:
    return {image.recipe.name: image for image in build.build(content.DEFAULT)}


@pytest.fixture(params=IMPORTS)
def image(request: pytest.FixtureRequest, images: dict[str, build.Image]) -> build.Image:
    return images[request.param]


def configuration(archive: Path) -> dict[str, dict[str, object]]:
    with tarfile.open(archive) as tar:
        manifest = json.load(tar.extractfile("manifest.json") or pytest.fail("no manifest"))
        return dict(json.load(tar.extractfile(manifest[0]["Config"]) or pytest.fail("no configuration")))


def test_it_runs_as_nobody_in_particular_and_says_what_it_is(image: build.Image) -> None:
    config = configuration(image.archive)["config"]
    assert config["User"] == "65532:65532"
    labels = config["Labels"]
    assert isinstance(labels, dict)
    assert labels["org.opencontainers.image.licenses"] == "Apache-2.0"


def layer_bytes(recipe: Recipe, archive: Path) -> int:
    """Return what the image's own layers hold unpacked: all but the first, which is the base made here."""
    with tarfile.open(archive) as tar:
        manifest = json.load(tar.extractfile("manifest.json") or pytest.fail("no manifest"))
        layers = manifest[0]["Layers"][1:]
        return sum(tar.getmember(layer).size for layer in layers)


def test_the_controller_is_small(images: dict[str, build.Image]) -> None:
    size = layer_bytes(CONTROLLER, images["controller"].archive)
    print(f"controller beyond its base: {size / 1e6:.0f} MB")
    assert size < CONTROLLER_LIMIT_BYTES


def test_it_starts_with_any_user_and_holds_no_installer(image: build.Image) -> None:
    if builders.choose().builder != "buildah":
        pytest.skip("run by buildah, which needs no cluster")
    with lock.exclusive(store.folder("images") / "lock"):
        tool = [str(word) for word in builders._buildah()]
        made = [*tool, "from", "--pull-never", f"localhost/{image.name}"]
        container = subprocess.run(made, capture_output=True, text=True, check=True).stdout.strip()
        try:
            root = subprocess.run(
                [*tool, "mount", container], capture_output=True, text=True, check=True
            ).stdout.strip()
            packages = next(Path(root, "venv/lib").glob("python3.*")) / "site-packages"
            assert not [name for name in ("pip", "setuptools", "wheel") if (packages / name).exists()]
            assert not any((packages / "tfdist").glob("**/*.tmp"))
            assert any((packages / "tfdist/__pycache__").glob("contract.*.pyc"))
            run_as = ["chroot", "--userspec=12345:0", root, "/venv/bin/python", "-c"]
            started = time.monotonic()
            done = subprocess.run(
                [*run_as, SCRIPT.format(IMPORTS[image.recipe.name])], capture_output=True, text=True, check=False,
                env={"HOME": "/tmp", "LOGNAME": "tfdist", "TF_CPP_MIN_LOG_LEVEL": "2"},
            )  # fmt: skip
            print(f"{image.name} starts in {time.monotonic() - started:.1f} s")
            assert done.returncode == 0, done.stderr
            assert done.stdout.strip() == "12345"
        finally:
            subprocess.run([*tool, "rm", container], capture_output=True, check=False)


def test_a_second_build_builds_nothing(images: dict[str, build.Image]) -> None:
    before = {name: image.archive.stat().st_mtime_ns for name, image in images.items()}
    again = build.build([RECIPES[name] for name in images])
    if {image.name for image in again} != {image.name for image in images.values()}:
        pytest.skip("the sources were edited meanwhile")
    assert {image.recipe.name: image.archive.stat().st_mtime_ns for image in again} == before
