"""Sweeps from Python: the order and form of the results, waiting, and control, with stored sweeps as the cluster."""

import itertools
import pathlib
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from support.stored_cluster import SWEEPS, StoredCluster, connected
from support.stored_sweeps import FAILED_SWEEP, NEW_SWEEP, RUNNING_SWEEP, SUCCEEDED_SWEEP, result, stored_sweep
from support.sweeps import sweep_manifest

from tfdist.api.sweep import TFDistSweep
from tfdist.client.client import Client
from tfdist.client.errors import AlreadyExists, NotFound, NotInstalled, NotPossible, SweepFailed, WaitTimeout
from tfdist.client.sweep import Sweep, rows


@pytest.fixture
def cluster(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StoredCluster]:
    monkeypatch.chdir(tmp_path)
    made = StoredCluster()
    for sweep in (RUNNING_SWEEP, FAILED_SWEEP, NEW_SWEEP):
        made.objects[f"{SWEEPS}/{sweep.name}"] = {**sweep.manifest}
    with connected(made):
        yield made


@pytest.fixture
def client(cluster: StoredCluster) -> Client:  # noqa: ARG001  it answers the requests
    return Client()


def order(sweep: Sweep) -> list[int]:
    return [trial.number for trial in sweep.results()]


def test_the_best_trial_is_first_then_those_without_a_value_and_failed_ones_are_last() -> None:
    assert order(RUNNING_SWEEP) == [2, 0, 1, 4, 3]
    assert [trial.number for trial in RUNNING_SWEEP.results(best_first=False)] == [0, 1, 2, 3, 4]


def test_the_smallest_value_is_the_best_of_a_sweep_that_minimizes() -> None:
    trials = [result(0, "Succeeded", 0.5), result(1, "Succeeded", 0.2)]

    assert order(stored_sweep("a", {"results": trials}, goal="Minimize")) == [1, 0]


@pytest.mark.parametrize(
    ("metric", "goal", "evaluation"),
    list(
        itertools.product(
            (None, "accuracy", "loss"),
            (None, "Minimize", "Maximize"),
            (None, {}, {"metric": "loss", "goal": "Minimize"}, {"goal": "Minimize"}),
        )
    ),
)
def test_metric_and_goal_have_the_defaults_of_the_models(
    metric: str | None, goal: str | None, evaluation: dict[str, Any] | None
) -> None:
    manifest = sweep_manifest("a", template={"evaluation": evaluation}, metric=metric, goal=goal)
    model = TFDistSweep.model_validate(manifest).spec

    sweep = Sweep(manifest)

    assert (sweep.metric, sweep.maximizes) == (model.metric_name or "", model.maximizes)


def test_a_trial_has_its_job_and_if_it_is_kept_its_checkpoint() -> None:
    best, second, *_ = RUNNING_SWEEP.results()

    assert (best.job, best.value, best.step) == ("fashion-lr-2", 0.9034, 1407)
    assert best.checkpoint == "/ckpt/fashion-lr-2/ckpt-1407"
    assert second.checkpoint is None
    assert second.document() == {
        "trial": 0,
        "job": "fashion-lr-0",
        "phase": "Succeeded",
        "parameters": {"learningRate": 0.0031, "batchSizePerReplica": 64},
        "value": 0.8812,
        "step": 1407,
    }


def test_rows_are_flat_and_have_the_same_columns() -> None:
    # given trials of which one has a parameter with the name of another column
    sweep = stored_sweep("a", {"results": [result(0, "Succeeded", 0.5, step=3), result(1, "Running", rate=0.1)]})

    first, second = rows(sweep.results())

    assert list(first) == list(second)
    assert (first["step"], first["parameters.step"], first["parameters.rate"]) == (1407, 3, None)
    assert (second["value"], second["parameters.step"], second["parameters.rate"]) == (None, None, 0.1)


def test_a_result_that_this_version_cannot_read_is_left_out_alone() -> None:
    sweep = stored_sweep("a", {"results": [result(0, "Frozen", 0.5), result(1, "Running")], "newField": 1})

    assert order(sweep) == [1]


def test_a_sweep_is_created_with_its_config_maps(client: Client, cluster: StoredCluster) -> None:
    manifest = sweep_manifest("second")
    config_map = {"metadata": {"name": "settings"}, "data": {"a": "1"}}

    handle = client.sweeps.submit(manifest, config_maps=[config_map])

    assert (handle.name, handle.namespace) == ("second", "team")
    assert cluster.objects[f"{SWEEPS}/second"]["spec"] == manifest["spec"]
    assert cluster.objects["/api/v1/namespaces/team/configmaps/settings"]["data"] == {"a": "1"}


def test_a_name_that_is_taken_creates_nothing(client: Client, cluster: StoredCluster) -> None:
    before = set(cluster.objects)

    with pytest.raises(AlreadyExists, match=r'^sweep "fashion-lr" already exists in namespace "team": .* that sweep'):
        client.sweeps.submit(sweep_manifest(), config_maps=[{"metadata": {"name": "settings"}, "data": {}}])

    assert set(cluster.objects) == before


def test_sweeps_are_listed_by_name(client: Client) -> None:
    assert [sweep.name for sweep in client.sweeps.list()] == ["fashion-lr", "new", "prices"]
    assert client.sweeps.get("new").phase == "Pending"


def test_a_missing_sweep_is_named(client: Client) -> None:
    with pytest.raises(NotFound, match=r'^sweep "fashion" not found in namespace "team"$'):
        client.sweeps.get("fashion")


def test_a_cluster_without_sweeps_is_named_with_the_remedy(client: Client, cluster: StoredCluster) -> None:
    cluster.rejected[SWEEPS] = (404, "the server could not find the requested resource")

    with pytest.raises(NotInstalled, match=r"does not serve /apis/tfdist\.dev/v1alpha1/.* Install its chart"):
        client.sweeps.list()


def test_a_wait_returns_the_trials_the_best_first(client: Client, cluster: StoredCluster) -> None:
    cluster.watched["fashion-lr"] = [{**RUNNING_SWEEP.manifest}, {**SUCCEEDED_SWEEP.manifest}]

    assert client.sweeps.attach("fashion-lr").wait()[0].number == 2


def test_a_wait_for_a_sweep_that_fails_raises_the_message_of_its_condition(client: Client) -> None:
    handle = client.sweeps.attach("prices")

    with pytest.raises(SweepFailed, match=r"^prices failed: the sweep was active for 600 s$"):
        handle.wait()

    assert handle.results() == []


def test_a_wait_ends_at_its_timeout(client: Client) -> None:
    with pytest.raises(WaitTimeout, match=r"^fashion-lr is Running after 0 s: best accuracy"):
        client.sweeps.attach("fashion-lr").wait(timeout=0)


def test_a_wait_ends_with_a_phase_that_is_waited_for(client: Client) -> None:
    assert client.sweeps.attach("fashion-lr").wait_for({"Running"}, timeout=0).phase == "Running"


def test_a_sweep_that_is_not_deleted_in_time_is_named(client: Client) -> None:
    with pytest.raises(WaitTimeout, match=r'^after 0 s there is still sweep "fashion-lr"$'):
        client.sweeps.attach("fashion-lr").wait_deleted(timeout=0)


def test_a_status_of_an_earlier_generation_does_not_end_a_wait() -> None:
    changed = {**SUCCEEDED_SWEEP.manifest, "metadata": {**SUCCEEDED_SWEEP.manifest["metadata"], "generation": 2}}

    assert not Sweep(changed).is_finished


def test_a_sweep_is_suspended_resumed_and_deleted(client: Client, cluster: StoredCluster) -> None:
    handle = client.sweeps.attach("fashion-lr")

    assert handle.suspend().spec["suspend"] is True
    assert handle.resume().spec["suspend"] is False
    handle.delete()

    assert f"{SWEEPS}/fashion-lr" not in cluster.objects


@pytest.mark.parametrize(
    ("spec", "running", "loss"),
    [({}, 2, "jobs that run (2) begin again at step 0"), ({}, 0, ""), ({"checkpoint": {"directory": "/c"}}, 2, "")],
)
def test_a_suspended_sweep_whose_jobs_have_no_checkpoints_warns_that_they_begin_again(
    spec: dict[str, Any], running: int, loss: str, client: Client, cluster: StoredCluster
) -> None:
    status = {"phase": "Running", "trials": {"total": 9, "running": running}}
    made = sweep_manifest("bare", template={"checkpoint": None, **spec})
    cluster.objects[f"{SWEEPS}/bare"] = {**stored_sweep("bare", status).manifest, "spec": made["spec"]}

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        sweep = client.sweeps.attach("bare").suspend()

    assert [str(each.message) for each in caught] == [sweep.loss] * bool(loss)
    assert loss in sweep.loss


def test_a_finished_sweep_is_not_suspended(client: Client) -> None:
    with pytest.raises(NotPossible, match=r'sweep "prices" cannot be suspended: it has finished \(Failed\)'):
        client.sweeps.attach("prices").suspend()


def test_another_sweep_of_the_same_name_is_not_used(client: Client, cluster: StoredCluster) -> None:
    handle = client.sweeps.attach("new")
    stored = cluster.objects[f"{SWEEPS}/new"]
    cluster.objects[f"{SWEEPS}/new"] = {**stored, "metadata": {**stored["metadata"], "uid": "other"}}

    with pytest.raises(NotFound, match="sweep new was deleted; another one has its name now"):
        handle.refresh()


def test_sweeps_need_a_cluster(tmp_path: pathlib.Path) -> None:
    with pytest.raises(NotPossible, match="sweeps need a cluster"):
        Client(local=tmp_path).sweeps.attach("prices")
