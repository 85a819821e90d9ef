"""A sweep of the largest number of trials."""

import pathlib
import time
from collections import Counter

import pytest
from support.api import Api
from support.controller import controller as run_controller
from support.scripted_sweep import NAME, create, end, statuses, sweep

from tfdist.api.sweep_resource import MAX_TRIALS

pytestmark = [pytest.mark.integration, pytest.mark.long]

PARALLELISM = 50
SECONDS = 900


def test_500_trials_cost_two_requests_each_apart_from_those_of_their_jobs(
    api: Api, namespace: str, tmp_path: pathlib.Path
) -> None:
    """Given 500 trials of which 50 run at a time; then each runs once, and the best one is found."""
    with run_controller(api, tmp_path, TFDIST_NAMESPACE=namespace) as running:
        create(api, namespace, search={"trials": MAX_TRIALS}, parallelism=PARALLELISM, cleanTrials="AllButBest")
        ended: set[int] = set()
        last = time.monotonic() + SECONDS
        while sweep(api, namespace).get("status", {}).get("phase") != "Succeeded":
            assert time.monotonic() < last, sweep(api, namespace).get("status", {}).get("trials")
            stored = statuses(api, namespace)
            now_running = [k for k, status in stored.items() if status.get("phase") == "Running" and k not in ended]
            assert len(now_running) <= PARALLELISM
            for trial in now_running:
                assert stored[trial]["attempt"] == 0, stored[trial]
                end(api, namespace, trial, trial / MAX_TRIALS)
                ended.add(trial)
            time.sleep(0.5)
        requests = Counter(running.requests_made())

    status = sweep(api, namespace)["status"]
    assert ended == set(range(MAX_TRIALS))
    assert status["trials"]["succeeded"] == MAX_TRIALS
    assert [best["job"] for best in status["best"]] == [f"{NAME}-{MAX_TRIALS - 1}"]
    of_sweep = {key: count for key, count in requests.items() if "tfdistsweeps" in key or key == "POST tfdistjobs"}
    assert sum(of_sweep.values()) <= 2 * MAX_TRIALS, requests
    assert requests["POST tfdistjobs"] == MAX_TRIALS
