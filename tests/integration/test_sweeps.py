"""The life of a sweep against a real API server, with the controller under the role that is shipped."""

import pathlib

import pytest
from support.api import Api
from support.controller import controller as run_controller
from support.factories import manifest
from support.polling import wait_for
from support.scripted_sweep import (
    NAME,
    SWEEPS,
    await_sweep,
    await_trials,
    change,
    create,
    end,
    events,
    sweep,
    trials,
)

from tfdist.api.sweep import TFDistSweep
from tfdist.sweeps.values import trial_values

pytestmark = pytest.mark.integration


@pytest.mark.usefixtures("controller")
def test_the_best_of_three_trials_is_reported_with_its_parameters(api: Api, namespace: str) -> None:
    create(api, namespace, search={"trials": 3}, parallelism=2, cleanTrials="AllButBest")
    jobs = await_trials(api, namespace, "Running", 0, 1)
    # then each is an ordinary job with its own value, owned by the sweep
    values = [trial_values(TFDistSweep.model_validate(without_status(api, namespace)).spec, k) for k in range(3)]
    assert [jobs[k]["spec"]["training"]["config"]["learningRate"] for k in (0, 1)] == [
        values[k]["learningRate"] for k in (0, 1)
    ]
    assert [owner["kind"] for owner in jobs[0]["metadata"]["ownerReferences"]] == ["TFDistSweep"]
    # when one ends, then the third begins, and what is not the best is deleted
    end(api, namespace, 1, 0.9)
    await_trials(api, namespace, "Running", 0, 2)
    end(api, namespace, 0, 0.7)
    end(api, namespace, 2, 0.8)
    status = await_sweep(api, namespace, "Succeeded")
    assert status["trials"] == {"total": 3, "running": 0, "succeeded": 3, "stopped": 0, "failed": 0}
    assert [(best["trial"], best["job"], best["value"]) for best in status["best"]] == [(1, f"{NAME}-1", 0.9)]
    assert [result["parameters"] for result in status["results"]] == values
    wait_for("the others to be deleted", lambda: [*trials(api, namespace)] == [1])
    assert events(api, namespace) == ["AllTrialsFinished"]


@pytest.mark.usefixtures("controller")
def test_a_target_stops_the_trials_that_run_and_saves_them(api: Api, namespace: str) -> None:
    create(api, namespace, search={"trials": 3}, parallelism=3, targetValue=0.9, cleanTrials="None")
    await_trials(api, namespace, "Running", 0, 1, 2)
    end(api, namespace, 1, 0.95)
    status = await_sweep(api, namespace, "Succeeded")
    assert [result["phase"] for result in status["results"]] == ["Stopped", "Succeeded", "Stopped"]
    jobs = wait_for(
        "the others to be suspended", lambda: suspended(api, namespace) == {0, 2} and trials(api, namespace)
    )
    assert jobs
    assert events(api, namespace) == ["TargetReached"]


@pytest.mark.usefixtures("controller")
def test_a_suspended_sweep_suspends_its_trials_and_goes_on_with_them(api: Api, namespace: str) -> None:
    create(api, namespace, search={"trials": 2}, parallelism=1)
    await_trials(api, namespace, "Running", 0)
    change(api, namespace, suspend=True)
    await_sweep(api, namespace, "Suspended")
    wait_for("its trial to be suspended", lambda: suspended(api, namespace) == {0})
    change(api, namespace, suspend=False)
    await_sweep(api, namespace, "Running")
    wait_for("its trial to go on", lambda: not suspended(api, namespace))
    assert [*trials(api, namespace)] == [0]


@pytest.mark.usefixtures("controller")
def test_a_sweep_that_is_deleted_takes_its_trials_with_it(api: Api, namespace: str) -> None:
    create(api, namespace, search={"trials": 2}, parallelism=2)
    await_trials(api, namespace, "Running", 0, 1)
    api.do("DELETE", f"{SWEEPS.format(ns=namespace)}/{NAME}")
    wait_for("its jobs to be deleted", lambda: not trials(api, namespace))


@pytest.mark.usefixtures("controller")
def test_a_sweep_that_is_created_again_at_once_runs_its_own_trials(api: Api, namespace: str) -> None:
    create(api, namespace, search={"trials": 2}, parallelism=2)
    before = await_trials(api, namespace, "Running", 0, 1)
    # when it is replaced while its jobs are still there
    api.do("DELETE", f"{SWEEPS.format(ns=namespace)}/{NAME}")
    create(api, namespace, search={"trials": 2}, parallelism=2)
    uid = sweep(api, namespace)["metadata"]["uid"]
    wait_for("its own trials", lambda: owners(api, namespace) == {0: uid, 1: uid})
    await_trials(api, namespace, "Running", 0, 1)
    assert not {job["metadata"]["uid"] for job in trials(api, namespace).values()} & {
        job["metadata"]["uid"] for job in before.values()
    }
    assert sweep(api, namespace)["status"]["trials"]["failed"] == 0


@pytest.mark.usefixtures("controller")
def test_a_job_of_another_owner_with_the_name_of_a_trial_is_left_alone(api: Api, namespace: str) -> None:
    document = manifest(f"{NAME}-0", namespace, runPolicy={"suspend": True})
    del document["metadata"]["uid"]
    stored = api.create_job(document)
    create(api, namespace, search={"trials": 2}, parallelism=1, cleanTrials="AllButBest")
    await_trials(api, namespace, "Running", 1)
    end(api, namespace, 1, 0.5)
    status = await_sweep(api, namespace, "Succeeded")
    assert [(result["phase"], result.get("reason")) for result in status["results"]] == [
        ("Failed", "NameTaken"),
        ("Succeeded", None),
    ]
    assert api.job(namespace, f"{NAME}-0")["spec"] == stored["spec"]


@pytest.mark.usefixtures("controller")
def test_an_invalid_sweep_reports_all_its_errors_and_runs_once_it_is_corrected(api: Api, namespace: str) -> None:
    wrong = [{"name": "learningRate", "values": ["fast", 0.1]}]
    create(api, namespace, parameters=wrong, search={"trials": 1})
    status = await_sweep(api, namespace, "Invalid")
    (condition,) = status["conditions"]
    assert "spec.parameters[0]" in condition["message"]
    change(api, namespace, parameters=[{"name": "learningRate", "values": [0.1]}])
    await_trials(api, namespace, "Running", 0)


def test_a_sweep_is_deleted_after_its_time_to_live(api: Api, namespace: str, tmp_path: pathlib.Path) -> None:
    """Given a finished sweep that a controller left behind; when another one starts, then it is deleted in time."""
    with run_controller(api, tmp_path, TFDIST_NAMESPACE=namespace):
        create(api, namespace, search={"trials": 1}, ttlSecondsAfterFinished=3600)
        await_trials(api, namespace, "Running", 0)
        end(api, namespace, 0, 0.5)
        await_sweep(api, namespace, "Succeeded")
    change(api, namespace, ttlSecondsAfterFinished=0)
    with run_controller(api, tmp_path, TFDIST_NAMESPACE=namespace):
        path = f"{SWEEPS.format(ns=namespace)}/{NAME}"
        wait_for("the sweep to be deleted", lambda: api.send("GET", path).status_code == 404)


def test_trials_cost_two_requests_each_apart_from_those_of_their_jobs(
    api: Api, namespace: str, tmp_path: pathlib.Path
) -> None:
    with run_controller(api, tmp_path, TFDIST_NAMESPACE=namespace) as running:
        create(api, namespace, search={"trials": 6}, parallelism=6)
        await_trials(api, namespace, "Running", *range(6))
        for trial in range(6):
            end(api, namespace, trial, 0.1 * trial)
        await_sweep(api, namespace, "Succeeded")
        requests = running.requests_made()
        assert requests["POST tfdistjobs"] == 6
        assert requests.get("PATCH tfdistsweeps", 0) <= 6, requests


def owners(api: Api, namespace: str) -> dict[int, str]:
    """Return the UID of the sweep that owns each trial."""
    return {number: job["metadata"]["ownerReferences"][0]["uid"] for number, job in trials(api, namespace).items()}


def suspended(api: Api, namespace: str) -> set[int]:
    jobs = trials(api, namespace).items()
    return {number for number, job in jobs if job.get("status", {}).get("phase") == "Suspended"}


def without_status(api: Api, namespace: str) -> dict[str, object]:
    return {key: value for key, value in sweep(api, namespace).items() if key != "status"}
