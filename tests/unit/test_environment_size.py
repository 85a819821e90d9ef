"""Environment variables of large gangs: Linux starts no container with a variable of more than 128 KiB."""

import pytest
from support.factories import manifest

from tfdist.contract import JOB_ENV, TF_CONFIG_ENV
from tfdist.render.gang import training_gang
from tfdist.render.installation import Installation
from tfdist.render.launch import GangHistory
from tfdist.render.pod import Attempt, PodRenderer
from tfdist.validation import ValidationFailed, parse
from tfdist.validation.environment import MAX_VARIABLE_BYTES
from tfdist_launch.settings import read_settings

COMMAND = ["tfdist-launch", "python", "train.py"]


def variables(replicas: int, index: int, history: GangHistory | None = None) -> dict[str, str]:
    """Return the generated environment variables of a worker."""
    job = parse(manifest(command=COMMAND, worker={"replicas": replicas}))
    gang = training_gang(job)
    renderer = PodRenderer(job, gang, Installation("trainer:1"), history or GangHistory())
    made = renderer.pod(gang.members[index], Attempt(0, 0))
    env = made["spec"]["containers"][0]["env"]
    return {v["name"]: v["value"] for v in env if v["name"] in {JOB_ENV, TF_CONFIG_ENV}}


def accepted(replicas: int) -> bool:
    try:
        parse(manifest(command=COMMAND, worker={"replicas": replicas}))
    except ValidationFailed:
        return False
    return True


def test_the_largest_accepted_gang_fits_and_the_next_larger_one_does_not() -> None:
    low, high = 1, 10_000
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if accepted(middle) else (low, middle)
    assert low > 3000
    largest = {f"{name}={value}\0" for index in (0, low - 1) for name, value in variables(low, index).items()}
    assert MAX_VARIABLE_BYTES - 100 < max(map(len, largest)) <= MAX_VARIABLE_BYTES
    with pytest.raises(ValidationFailed, match=rf"spec.worker.replicas.*TF_CONFIG.*131072.*at most {low} replicas"):
        parse(manifest(command=COMMAND, worker={"replicas": high}))


@pytest.mark.parametrize("replicas", [2, 1000, 1001, 3000])
def test_the_leader_knows_all_members_with_their_attempts(replicas: int) -> None:
    history = GangHistory(attempt_of=lambda member: 7 if member.index == replicas // 2 else 2)
    found = variables(replicas, 0, history)
    assert len(found[JOB_ENV]) < MAX_VARIABLE_BYTES
    leader = read_settings({JOB_ENV: found[JOB_ENV]}).launch.gang
    assert leader is not None
    assert [(str(m.role), m.index) for m in leader.members] == [("worker", i) for i in range(replicas)]
    assert [m.attempt for m in leader.members if m.attempt != 2] == [7]
    assert all(m.required_for_success for m in leader.members)


def test_a_gang_of_up_to_1000_is_listed_for_launchers_of_earlier_versions() -> None:
    assert '"memberRanges"' not in variables(1000, 0)[JOB_ENV]
    assert '"memberRanges"' in variables(1001, 0)[JOB_ENV]
