"""`tfdist sweep` as a user with the role `edit`, with a real API server and controller."""

import csv
import io
import json
import pathlib
import threading

import pytest
import yaml
from support.api import Api, Json
from support.command_user import CommandUser
from support.polling import wait_for
from support.scripted_sweep import NAME, await_sweep, await_trials, change, create, end, sweep
from support.sweeps import sweep_manifest

pytestmark = pytest.mark.integration


@pytest.fixture
def file(tmp_path: pathlib.Path) -> str:
    """A sweep that does not run, with a ConfigMap of its own."""
    document: Json = sweep_manifest(NAME, suspend=True) | {"metadata": {"name": NAME}}
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"a": "1"}}
    path = tmp_path / "sweep.yaml"
    path.write_text(yaml.safe_dump_all([config_map, document]), encoding="utf-8")
    return str(path)


def test_a_sweep_is_created_listed_changed_and_deleted(
    user: CommandUser, api: Api, namespace: str, file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert user.run("sweep", "submit", file, "--dry-run=server") == 0
    assert user.run("sweep", "list", "-o", "name") == 0
    assert user.run("sweep", "submit", file) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"tfdistsweep/{NAME} created (server dry run)",
        f"tfdistsweep/{NAME} created",
    ]
    assert user.run("sweep", "submit", file) == 2
    assert f'sweep "{NAME}" already exists in namespace "{namespace}"' in capsys.readouterr().err

    assert user.run("sweep", "resume", NAME) == 0
    assert sweep(api, namespace)["spec"]["suspend"] is False
    assert user.run("sweep", "suspend", NAME) == 0
    assert sweep(api, namespace)["spec"]["suspend"] is True
    capsys.readouterr()
    assert user.run("sweep", "list", "-o", "json") == 0
    assert [each["metadata"]["name"] for each in json.loads(capsys.readouterr().out)["items"]] == [NAME]
    assert user.run("sweep", "delete", f"tfdistsweep.tfdist.dev/{NAME}") == 0
    assert user.run("sweep", "get", NAME) == 2


def test_the_columns_of_a_list_are_those_of_the_api_server(
    user: CommandUser, api: Api, file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    (version,) = api.do("GET", f"{definitions}/tfdistsweeps.tfdist.dev")["spec"]["versions"]
    columns = version["additionalPrinterColumns"]
    user.run("sweep", "submit", file)
    capsys.readouterr()

    assert user.run("sweep", "list", "-o", "wide") == 0

    headings = capsys.readouterr().out.splitlines()[0].split()
    assert headings == ["NAME", *(column["name"].upper() for column in columns), "MESSAGE"]


def test_the_sweeps_of_all_namespaces_need_a_right_that_is_named(
    user: CommandUser, capsys: pytest.CaptureFixture[str]
) -> None:
    assert user.run("sweep", "list", "-A") == 2
    assert "at the cluster scope" in capsys.readouterr().err


@pytest.mark.usefixtures("controller")
def test_a_sweep_is_followed_to_its_end_and_its_results_are_shown(
    user: CommandUser, api: Api, namespace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    create(api, namespace, search={"trials": 2}, parallelism=2, suspend=True)
    ended: list[int] = []
    following = threading.Thread(target=lambda: ended.append(user.run("sweep", "attach", NAME)), daemon=True)
    following.start()
    change(api, namespace, suspend=False)
    await_trials(api, namespace, "Running", 0, 1)
    end(api, namespace, 0, 0.7)
    end(api, namespace, 1, 0.9)
    await_sweep(api, namespace, "Succeeded")
    wait_for("the command to end", lambda: ended)

    assert ended == [0]
    assert f"{NAME} Succeeded: best accuracy 0.9 of trial 1" in capsys.readouterr().out
    assert user.run("sweep", "wait", NAME, "--timeout", "10s") == 0
    capsys.readouterr()
    assert user.run("sweep", "results", NAME, "-o", "csv") == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [(row["job"], row["value"]) for row in rows] == [(f"{NAME}-1", "0.9"), (f"{NAME}-0", "0.7")]
    stored = {result["trial"]: result["parameters"] for result in sweep(api, namespace)["status"]["results"]}
    assert float(rows[0]["parameters.learningRate"]) == stored[1]["learningRate"]
