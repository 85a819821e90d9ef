"""An image's name depends on its inputs and on nothing else."""

import os
import shutil
from pathlib import Path

import pytest

from tfdist_cluster.paths import REPOSITORY
from tfdist_images import content
from tfdist_images.content import CONTROLLER, RECIPES, TRAINER, TRAINER_GPU, Recipe


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("original")
    for recipe in RECIPES.values():
        content.stage(REPOSITORY, content.input_files(REPOSITORY, recipe), root)
    return root


@pytest.fixture
def tree(original: Path, tmp_path: Path) -> Path:
    return shutil.copytree(original, tmp_path / "tree")


def digest(root: Path, recipe: Recipe, base: str = "base:1") -> str:
    return content.content_hash(root, content.input_files(root, recipe), base=base, target=recipe.target)


@pytest.mark.parametrize(
    ("changed", "controller", "trainer"),
    [
        ("Dockerfile", True, False),
        ("trainer_image/Dockerfile", False, True),
        ("requirements/operator.txt", True, False),
        ("requirements/trainer-cpu.txt", False, True),
        ("requirements/trainer-gpu.txt", False, False),
        ("requirements/build.txt", True, True),
        ("operator/tfdist_operator/app.py", True, False),
        ("operator/pyproject.toml", True, False),
        ("trainer_image/tfdist_trainer/loop.py", False, True),
        ("sdk/tfdist/contract.py", True, True),
    ],
)
def test_a_changed_file_changes_the_names_of_the_images_that_contain_it(
    tree: Path, changed: str, controller: bool, trainer: bool
) -> None:
    before = digest(tree, CONTROLLER), digest(tree, TRAINER)
    (tree / changed).write_text((tree / changed).read_text() + "\n# changed\n")
    after = digest(tree, CONTROLLER), digest(tree, TRAINER)
    assert (before[0] != after[0], before[1] != after[1]) == (controller, trainer)


@pytest.mark.parametrize(
    "left",
    [
        "sdk/tfdist/__pycache__/contract.cpython-311.pyc",
        "sdk/tfdist/.contract.py.swp",
        "sdk/tfdist/contract.py~",
        "operator/tfdist_operator/tfdist.egg-info/PKG-INFO",
        "operator/manifests/role.yaml",
        "README.md",
    ],
)
def test_files_of_tools_next_to_the_sources_do_not_change_the_name(tree: Path, left: str) -> None:
    before = digest(tree, CONTROLLER)
    (tree / left).parent.mkdir(parents=True, exist_ok=True)
    (tree / left).write_text("left")
    assert digest(tree, CONTROLLER) == before


def test_a_new_file_a_renamed_file_and_an_executable_bit_change_the_name(tree: Path) -> None:
    names = [digest(tree, CONTROLLER)]
    (tree / "sdk/tfdist/new.py").touch()
    names.append(digest(tree, CONTROLLER))
    (tree / "sdk/tfdist/new.py").rename(tree / "sdk/tfdist/newer.py")
    names.append(digest(tree, CONTROLLER))
    (tree / "sdk/tfdist/newer.py").chmod(0o755)
    names.append(digest(tree, CONTROLLER))
    assert len(set(names)) == len(names)


def test_modification_times_and_the_folder_do_not_change_the_name(tree: Path, original: Path) -> None:
    os.utime(tree / "Dockerfile", (0, 0))
    assert digest(tree, CONTROLLER) == digest(original, CONTROLLER)


def test_the_base_and_the_target_change_the_name(tree: Path) -> None:
    assert digest(tree, CONTROLLER, base="base:1") != digest(tree, CONTROLLER, base="base:2")
    assert digest(tree, TRAINER) != digest(tree, TRAINER_GPU)


def test_a_missing_input_is_named(tree: Path) -> None:
    (tree / "requirements/operator.txt").unlink()
    with pytest.raises(content.MissingInputError, match=r"requirements/operator\.txt is missing"):
        content.input_files(tree, CONTROLLER)


def test_a_stage_holds_exactly_the_inputs(tmp_path: Path) -> None:
    files = content.input_files(REPOSITORY, TRAINER)
    content.stage(REPOSITORY, files, tmp_path)
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()) == files


@pytest.mark.parametrize(
    ("registry", "name"),
    [
        (None, "tfdist/controller:abc"),
        ("registry.example.com/team", "registry.example.com/team/tfdist/controller:abc"),
        ("registry.example.com/team/", "registry.example.com/team/tfdist/controller:abc"),
    ],
)
def test_names(registry: str | None, name: str) -> None:
    assert content.image_name(CONTROLLER, "abc", registry) == name
