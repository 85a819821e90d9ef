"""Rules of the Dockerfiles that a build does not check."""

import re
from pathlib import Path
from typing import Final

import pytest

from tfdist_cluster.paths import REPOSITORY
from tfdist_images import builders
from tfdist_images.content import RECIPES, Recipe

DOCKERFILES: Final = [REPOSITORY / "Dockerfile", REPOSITORY / "trainer_image/Dockerfile"]
FINAL_STAGES: Final = {"Dockerfile": 1, "trainer_image/Dockerfile": 2}


def instructions(dockerfile: Path, name: str) -> list[str]:
    text = re.sub(r"^#.*\n", "", dockerfile.read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    return [line.partition(" ")[2].strip() for line in text.splitlines() if line.startswith(f"{name} ")]


@pytest.fixture(params=DOCKERFILES, ids=lambda path: str(path.relative_to(REPOSITORY)))
def dockerfile(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


def test_the_base_is_an_argument_with_a_public_default(dockerfile: Path) -> None:
    assert instructions(dockerfile, "ARG")[0] == "BASE_IMAGE=python:3.11-slim-bookworm"
    others = [stage for stage in instructions(dockerfile, "FROM") if not stage.startswith("${BASE_IMAGE}")]
    assert all(re.match(r"(dependencies|cpu|scratch)\b", stage) for stage in others)


def test_every_image_runs_as_a_number_that_is_not_root(dockerfile: Path) -> None:
    users = instructions(dockerfile, "USER")
    assert len(users) == FINAL_STAGES[str(dockerfile.relative_to(REPOSITORY))]
    assert all(re.fullmatch(r"[1-9]\d+:[1-9]\d+", user) for user in users)


def test_the_controller_s_image_is_not_built_upon_a_base_with_a_shell() -> None:
    assert instructions(REPOSITORY / "Dockerfile", "FROM")[-1] == "scratch"


def test_entrypoints_start_no_shell(dockerfile: Path) -> None:
    assert all(entry.startswith("[") for entry in instructions(dockerfile, "ENTRYPOINT"))


def test_every_requirement_is_checked_against_its_hash(dockerfile: Path) -> None:
    installs = [run for run in instructions(dockerfile, "RUN") if "pip" in run]
    for run in installs:
        commands = re.findall(r"pip (?:--python \S+ )?install.*?(?=&&|$)", run)
        assert all("--require-hashes" in command or "--no-index" in command for command in commands)


def test_old_and_new_builders_can_read_it(dockerfile: Path) -> None:
    text = dockerfile.read_text()
    assert "--mount" not in text
    assert "<<" not in text
    assert "# syntax" not in text


def test_labels(dockerfile: Path) -> None:
    for labels in instructions(dockerfile, "LABEL"):
        for label in ("title", "version", "revision", "licenses"):
            assert f"org.opencontainers.image.{label}=" in labels
        assert "Apache-2.0" in labels


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)
def test_a_recipe_hashes_the_files_that_its_dockerfile_copies(recipe: Recipe) -> None:
    copies = [line.split() for line in instructions(REPOSITORY / recipe.dockerfile, "COPY") if "--from" not in line]
    copied = {source.replace("${DEVICE}", str(recipe.target)) for *sources, _ in copies for source in sources}
    assert copied == set(recipe.inputs) - {recipe.dockerfile}


def test_nothing_is_built_by_two_copies_of_the_same_commands(dockerfile: Path) -> None:
    runs = instructions(dockerfile, "RUN")
    assert len(set(runs)) == len(runs)


def test_a_build_has_the_device_of_its_target_installed() -> None:
    names = {recipe.name: builders.build_arguments(recipe, "base", {}) for recipe in RECIPES.values()}
    assert names["trainer"]["DEVICE"] == "cpu"
    assert names["trainer-gpu"]["DEVICE"] == "gpu"
    assert "DEVICE" not in names["controller"]
