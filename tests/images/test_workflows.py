"""The workflows name existing targets of the Makefile, files and versions; actionlint checks the rest."""

import pathlib
import re
import shutil
from typing import Any, Final

import pytest
import yaml

from tfdist_cluster import gobuild, paths, shell, versions
from tfdist_cluster.paths import GO_MODULE, REPOSITORY

FOLDER: Final = REPOSITORY / ".github/workflows"
WORKFLOWS: Final = sorted(FOLDER.glob("*.yaml"))
MAKEFILE: Final = (REPOSITORY / "Makefile").read_text()


def steps(path: pathlib.Path) -> list[dict[str, Any]]:
    jobs = yaml.safe_load(path.read_text())["jobs"].values()
    return [step for job in jobs for step in job["steps"]]


def values(path: pathlib.Path, key: str) -> list[Any]:
    """Return the values of a key in the matrices of jobs and in the settings of steps."""
    jobs = yaml.safe_load(path.read_text())["jobs"].values()
    of_matrix = [job["strategy"]["matrix"].get(key, []) for job in jobs if "matrix" in job.get("strategy", {})]
    return [value for found in of_matrix for value in found]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_every_target_is_one_of_the_makefile_s(path: pathlib.Path) -> None:
    commands = [step["run"] for step in steps(path) if step.get("run", "").startswith("make ")]
    named = {word for command in commands for word in command.split()[1:] if "{{" not in word and "}}" not in word}
    targets = named - {"matrix.target"} | set(values(path, "target"))
    assert commands
    assert [target for target in sorted(targets - {""}) if not re.search(rf"^{target}:", MAKEFILE, re.MULTILINE)] == []


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_has_only_read_permissions_by_default(path: pathlib.Path) -> None:
    assert yaml.safe_load(path.read_text())["permissions"] == {"contents": "read"}


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_every_action_is_pinned_to_a_commit_with_its_version_in_a_comment(path: pathlib.Path) -> None:
    actions = re.findall(r"uses: (.*)", path.read_text())
    assert actions
    assert [action for action in actions if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action)] == []


def test_a_released_image_has_the_tag_that_the_chart_uses_and_the_packages_of_its_device() -> None:
    (push,) = (step["with"] for step in steps(FOLDER / "release.yaml") if "build-push" in step.get("uses", ""))
    assert push["tags"].endswith(":${{ steps.version.outputs.version }}"), "the chart's appVersion, without the tag's v"
    assert "DEVICE=${{ matrix.target || 'cpu' }}" in push["build-args"].splitlines()


def test_the_workflow_runs_every_check_of_ci() -> None:
    ran = {step["run"] for step in steps(FOLDER / "ci.yaml") if "run" in step} | {
        f"make {target}" for target in values(FOLDER / "ci.yaml", "target")
    }
    _, _, targets = (REPOSITORY / ".ci/run").read_text().partition("\nmake ")
    suites = re.findall(r"^(test-\w+): .*\n\t\$\(SUITE\) \S+.* -m \"not long\"", MAKEFILE, re.MULTILINE)
    assert len(suites) == 6
    wanted = {*targets.split(), *suites} - {"test"}  # which is those suites but the one on pods
    assert {f"make {target}" for target in wanted} <= ran


def test_real_pods_run_on_the_oldest_and_the_newest_kubernetes_and_one_between() -> None:
    oldest, between, newest = values(FOLDER / "ci.yaml", "kubernetes")
    described = yaml.safe_load((REPOSITORY / "helm/tfdist-operator/Chart.yaml").read_text())
    assert newest == versions.KUBERNETES
    assert oldest.startswith("v" + re.findall(r"1\.\d+", described["kubeVersion"])[0])
    assert oldest < between < newest


def test_each_older_api_server_has_its_module_and_its_job() -> None:
    asked = [step.get("env", {}).get("TFDIST_KUBERNETES") for step in steps(FOLDER / "ci.yaml")]
    assert [version for version in asked if version] == list(versions.OLDER)
    for version in versions.OLDER:
        required = (GO_MODULE.with_name(f"go-{version}") / "go.mod").read_text()
        assert f"k8s.io/kubernetes {version}" in required
        assert f"k8s.io/api => k8s.io/api v0{version.removeprefix('v1')}" in required


@pytest.mark.long
def test_actionlint_finds_nothing() -> None:
    found = shutil.which("actionlint")
    program = pathlib.Path(found) if found else gobuild.tool(paths.State.from_environment(), "actionlint")
    shell.run([program, *WORKFLOWS], cwd=REPOSITORY)
