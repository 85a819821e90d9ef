"""`tfdist sweep`: what its commands print about stored sweeps, and what they create, change and delete.

The texts are in `golden_cli/`; UPDATE_GOLDEN=1 writes them again, to be read as a change of the output.
"""

import csv
import io
import json
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml
from support.factories import manifest
from support.stored_cluster import SWEEPS, StoredCluster, connected
from support.stored_sweeps import FAILED_SWEEP, NEW_SWEEP, RUNNING_SWEEP, SUCCEEDED_SWEEP, result, stored_sweep
from support.sweeps import sweep_manifest
from support.transcripts import WIDTHS, Transcript, check, transcript

from tfdist.cli.commands import attach
from tfdist.cli.main import main
from tfdist.client.client import Client
from tfdist.client.sweep_handle import SweepHandle

every_width = pytest.mark.parametrize("width", WIDTHS)


@pytest.fixture
def cluster(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StoredCluster]:
    """A cluster with sweeps that run, have failed, and are new; the current folder is that of a user."""
    monkeypatch.chdir(tmp_path)
    made = StoredCluster()
    for sweep in (RUNNING_SWEEP, FAILED_SWEEP, NEW_SWEEP):
        made.objects[f"{SWEEPS}/{sweep.name}"] = {**sweep.manifest}
    with connected(made):
        yield made


def write(*documents: object) -> None:
    """Write documents to `sweep.yaml` in the current folder."""
    pathlib.Path("sweep.yaml").write_text(yaml.safe_dump_all(documents), encoding="utf-8")


def new_sweep(**spec: Any) -> dict[str, Any]:
    made = sweep_manifest("second", **spec)
    return made | {"metadata": {"name": "second"}}


@every_width
@pytest.mark.usefixtures("cluster")
def test_sweeps_are_listed_described_and_compared(width: int | None) -> None:
    def run(shown: Transcript) -> None:
        shown.run("tfdist sweep list", "tfdist sweep list -A -o wide", "tfdist sweep get new")
        shown.run("tfdist sweep results fashion-lr", "tfdist sweep results fashion-lr --order number")
        shown.run("tfdist sweep describe fashion-lr")

    check(f"sweeps-{width or 'pipe'}", transcript(width, run))


def test_a_sweep_is_created_followed_controlled_and_deleted(cluster: StoredCluster) -> None:
    write(new_sweep(), {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "1"}})

    def run(shown: Transcript) -> None:
        shown.run("tfdist sweep submit sweep.yaml")
        cluster.watched["fashion-lr"] = [{**SUCCEEDED_SWEEP.manifest}]
        shown.run("tfdist sweep attach fashion-lr")
        shown.run("tfdist sweep wait prices", code=124)
        shown.run("tfdist sweep suspend second", "tfdist sweep resume second", "tfdist sweep delete second new")

    check("sweep", transcript(None, run))
    assert f"{SWEEPS}/second" not in cluster.objects
    assert cluster.objects["/api/v1/namespaces/team/configmaps/c"]["data"] == {"a": "1"}


def test_a_run_creates_a_sweep_and_follows_it(cluster: StoredCluster, capsys: pytest.CaptureFixture[str]) -> None:
    # given a controller that ends the sweep after its creation
    write(new_sweep())
    metadata = {**SUCCEEDED_SWEEP.manifest["metadata"], "name": "second"}
    cluster.watched["second"] = [{**SUCCEEDED_SWEEP.manifest, "metadata": metadata}]
    # when
    assert main(["sweep", "run", "sweep.yaml"]) == 0
    # then
    created, *phases = capsys.readouterr().out.splitlines()
    assert created == "tfdistsweep/second created"
    assert [line.partition(":")[0] for line in phases] == ["second Pending", "second Succeeded"]


def test_a_detached_sweep_goes_on(
    cluster: StoredCluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_: Client, handle: SweepHandle) -> int:
        raise KeyboardInterrupt(handle.name)

    monkeypatch.setattr(attach, "_follow_sweep", interrupted)

    assert main(["sweep", "attach", "fashion-lr"]) == 130
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("detached; fashion-lr goes on. Attach again: tfdist sweep attach fashion-lr; stop it")
    assert f"{SWEEPS}/fashion-lr" in cluster.objects


@pytest.mark.usefixtures("cluster")
def test_results_as_csv_have_a_column_for_each_parameter(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", "results", "fashion-lr", "-o", "csv"]) == 0

    first, *others = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert (first["trial"], first["value"], first["parameters.learningRate"]) == ("2", "0.9034", "0.00114")
    assert [row["trial"] for row in others] == ["0", "1", "4", "3"]
    assert others[-1]["reason"] == "Crash"
    assert others[-2]["value"] == ""


def test_lists_and_booleans_are_json_in_csv(cluster: StoredCluster, capsys: pytest.CaptureFixture[str]) -> None:
    values: dict[str, Any] = {"layers": [64, "wide"], "bias": True, "name": "a,b"}
    cluster.objects[f"{SWEEPS}/a"] = {**stored_sweep("a", {"results": [result(0, "Running", **values)]}).manifest}

    main(["sweep", "results", "a", "-o", "csv"])

    (row,) = csv.DictReader(io.StringIO(capsys.readouterr().out))
    found = [row[f"parameters.{name}"] for name in values]
    assert found == ['[64, "wide"]', "true", "a,b"]


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize(("output", "read"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_results_as_json_and_yaml_name_the_metric(
    output: str, read: Callable[[str], dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sweep", "results", "fashion-lr", "-o", output, "--order", "number"]) == 0

    found = read(capsys.readouterr().out)
    assert (found["sweep"], found["metric"], found["goal"]) == ("fashion-lr", "accuracy", "Maximize")
    assert found["results"] == [trial.document() for trial in RUNNING_SWEEP.results(best_first=False)]


@pytest.mark.usefixtures("cluster")
def test_a_sweep_without_trials_has_no_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", "results", "new"]) == 0
    assert capsys.readouterr() == ("", 'sweep "new" has no trials yet\n')
    assert main(["sweep", "results", "new", "-o", "csv"]) == 0
    assert capsys.readouterr().out == "trial,job,phase,value,step,reason,checkpoint,gpuSeconds,cpuSeconds\n"


@pytest.mark.usefixtures("cluster")
def test_a_sweep_is_printed_as_it_is_stored(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", "get", "new", "-o", "yaml"]) == 0
    assert yaml.safe_load(capsys.readouterr().out) == NEW_SWEEP.manifest
    assert main(["sweep", "list", "-o", "name"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "tfdistsweep.tfdist.dev/fashion-lr"
    assert main(["sweep", "get", "tfdistsweep.tfdist.dev/new", "-o", "name"]) == 0


def test_a_namespace_without_sweeps_is_named(cluster: StoredCluster, capsys: pytest.CaptureFixture[str]) -> None:
    cluster.objects.clear()

    assert main(["sweep", "list"]) == 0
    assert capsys.readouterr() == ("", "No sweeps found in team namespace.\n")


@pytest.mark.usefixtures("cluster")
def test_a_suspended_sweep_without_checkpoints_shows_that_its_jobs_begin_again(
    cluster: StoredCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = {**RUNNING_SWEEP.spec, "template": {"spec": {"worker": {"replicas": 1}}}}
    cluster.objects[f"{SWEEPS}/fashion-lr"] = {**RUNNING_SWEEP.manifest, "spec": spec}
    assert main(["sweep", "suspend", "fashion-lr"]) == 0
    shown = capsys.readouterr()
    assert shown.out.endswith("fashion-lr suspended\n")
    assert "warning: fashion-lr has no spec.template.spec.checkpoint: jobs that run (1) begin again" in shown.err


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize("command", ["attach", "wait", "get", "describe", "results", "suspend", "resume", "delete"])
def test_a_missing_sweep_is_named_with_a_similar_one(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", command, "fashoin-lr"]) == 2
    expected = 'sweep "fashoin-lr" not found in namespace "team"; did you mean "fashion-lr"?\n'
    assert capsys.readouterr() == ("", expected)


@pytest.mark.parametrize("command", ["list", "submit"])
def test_a_cluster_without_sweeps_is_one_line_with_the_remedy(
    command: str, cluster: StoredCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    write(new_sweep())
    cluster.rejected[SWEEPS] = (404, "the server could not find the requested resource")

    assert main(["sweep", command, *(["sweep.yaml"] if command == "submit" else [])]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"does not serve {SWEEPS}: TFDist is not installed there, or in another version" in line


def test_an_invalid_sweep_has_the_errors_of_validate_and_is_not_created(
    cluster: StoredCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    write(new_sweep(search={"method": "Grid", "trials": 5}))
    assert main(["validate", "-q", "sweep.yaml"]) == 1
    expected = capsys.readouterr().out

    assert main(["sweep", "submit", "sweep.yaml"]) == 1

    assert capsys.readouterr() == ("", expected)
    assert f"{SWEEPS}/second" not in cluster.objects


@pytest.mark.usefixtures("cluster")
def test_a_file_without_a_sweep_names_the_command_for_what_it_has(capsys: pytest.CaptureFixture[str]) -> None:
    write(manifest())
    assert main(["sweep", "submit", "sweep.yaml"]) == 1
    expected = "sweep.yaml: no TFDistSweep to create; found TFDistJob; `tfdist submit` creates a TFDistJob"
    assert capsys.readouterr().err.splitlines()[-1] == expected

    write(new_sweep())
    assert main(["submit", "sweep.yaml"]) == 1
    expected = "sweep.yaml: no TFDistJob to submit; found TFDistSweep; `tfdist sweep run` creates a TFDistSweep"
    assert capsys.readouterr().err.splitlines()[-1] == expected


@pytest.mark.usefixtures("cluster")
def test_the_namespace_of_the_command_line_must_be_that_of_the_manifest(capsys: pytest.CaptureFixture[str]) -> None:
    write(sweep_manifest("second"))

    assert main(["sweep", "submit", "sweep.yaml", "-n", "other"]) == 2
    expected = "--namespace other: the manifest has the namespace team; change one of them\n"
    assert capsys.readouterr().err == expected


@pytest.mark.parametrize("kind", ["client", "server"])
def test_a_dry_run_creates_nothing(kind: str, cluster: StoredCluster, capsys: pytest.CaptureFixture[str]) -> None:
    write(new_sweep())

    assert main(["sweep", "submit", "sweep.yaml", f"--dry-run={kind}"]) == 0

    out = capsys.readouterr().out
    if kind == "client":
        assert yaml.safe_load(out) == new_sweep()
    else:
        assert out == "tfdistsweep/second created (server dry run)\n"
    assert f"{SWEEPS}/second" not in cluster.objects


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize(
    ("general", "of_the_group"),
    [
        (["list", "sweeps"], ["sweep", "list"]),
        (["get", "sweep/fashion-lr"], ["sweep", "get", "fashion-lr"]),
        (
            ["get", "sweep/fashion-lr", "-o", "yaml"],
            ["sweep", "get", "tfdistsweep.tfdist.dev/fashion-lr", "-o", "yaml"],
        ),
        (["describe", "sweep/fashion-lr"], ["sweep", "describe", "fashion-lr"]),
        (["wait", "sweep/prices"], ["sweep", "wait", "prices"]),
        (["suspend", "sweep/new"], ["sweep", "suspend", "new"]),
    ],
)
def test_the_commands_for_jobs_take_sweeps_by_their_kind(
    general: list[str], of_the_group: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert (main(general), capsys.readouterr()) == (main(of_the_group), capsys.readouterr())


@pytest.mark.usefixtures("cluster")
def test_a_command_for_jobs_alone_rejects_a_sweep(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["restart", "sweep/new"]) == 2
    assert capsys.readouterr().err == "sweep/new: this command needs a job\n"


def test_the_suspension_of_a_sweep_is_waited_for(cluster: StoredCluster, capsys: pytest.CaptureFixture[str]) -> None:
    # given a controller that suspends it
    metadata = RUNNING_SWEEP.manifest["metadata"]
    status = {**RUNNING_SWEEP.manifest["status"], "phase": "Suspended", "conditions": []}
    cluster.watched["fashion-lr"] = [{**RUNNING_SWEEP.manifest, "metadata": metadata, "status": status}]
    # then
    assert main(["sweep", "suspend", "fashion-lr", "--wait"]) == 0
    assert capsys.readouterr().err.splitlines()[-1] == "fashion-lr Suspended"


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize("arguments", [["sweep", "delete", "new"], ["delete", "sweep/new", "--timeout", "1h"]])
def test_the_deletion_of_a_sweep_ends_when_it_is_gone(arguments: list[str], cluster: StoredCluster) -> None:
    assert main(arguments) == 0
    assert f"{SWEEPS}/new" not in cluster.objects


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sweep", "attach", "fashion-lr", "--tail", "5"], "--tail: a sweep has no log"),
        (["attach", "sweep/fashion-lr", "--all"], "--all: a sweep has no log"),
        (
            ["wait", "sweep/fashion-lr", "--for", "restarting"],
            "--for restarting: write a phase of a sweep: Pending, Running, Suspended, Succeeded, Failed, Invalid\n",
        ),
    ],
)
def test_options_that_have_no_effect_on_a_sweep_are_rejected(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert capsys.readouterr().err.startswith(message)
