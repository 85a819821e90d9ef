"""The cache of sweeps: a part of a stored status that this version cannot read costs nothing else."""

from typing import Any

from support.stored_sweeps import result
from support.sweeps import sweep_manifest

from tfdist.api.sweep_status import TFDistSweepStatus
from tfdist_operator.cache.sweep_cache import SweepCache
from tfdist_operator.kube.keys import NamespacedName


def stored_status(status: dict[str, Any]) -> TFDistSweepStatus:
    manifest = sweep_manifest("lr")
    metadata = {"namespace": "team", "uid": "1", "resourceVersion": "7", "generation": 1}
    manifest["metadata"] = manifest["metadata"] | metadata
    cache = SweepCache()
    cache.on_update(manifest | {"status": status})
    sweep = cache.get(NamespacedName("team", "lr"))
    assert sweep is not None
    return sweep.status


def test_the_results_of_other_trials_stay_if_one_has_the_phase_of_another_version() -> None:
    status = {"phase": "Running", "results": [result(0, "Succeeded", 0.8), result(1, "Paused"), result(2, "Failed")]}

    known = stored_status(status)

    assert [(each.trial, each.phase) for each in known.results or ()] == [(0, "Succeeded"), (2, "Failed")]
    assert known.phase == "Running"


def test_a_field_that_was_edited_by_hand_costs_only_itself() -> None:
    known = stored_status({"phase": "Nice", "trials": {"total": 3}, "results": [result(0, "Succeeded", 0.8)]})

    assert (known.phase, known.trials.total if known.trials else None) == (None, 3)
    assert [each.trial for each in known.results or ()] == [0]
