"""What the end of a program leads to, by its exit code, and that a person reads it in what kubectl prints."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from support.e2e import Cluster
from support.failing import ENDS, Scene, own_namespace, small_job

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]


@dataclass(frozen=True, slots=True)
class Ending:
    """A program's ends, attempt after attempt, and what is to be seen of it."""

    name: str
    ways: tuple[str, ...]
    phase: str
    reason: str
    causes: tuple[tuple[str, bool], ...] = ()
    """Class of each end of an attempt, and whether it counts."""
    backoff_limit: int = 3

    @property
    def restarts(self) -> int:
        return len(self.causes) - (self.phase == "Failed")


ENDINGS = (
    Ending("success", ("0",), "Succeeded", "Succeeded"),
    Ending("an-error-once", ("1", "0"), "Succeeded", "Succeeded", (("ApplicationError", True),)),
    Ending(
        "an-error-without-words", ("1",), "Failed", "BackoffLimitExceeded",
        (("ApplicationError", True),) * 2, backoff_limit=1,
    ),
    Ending(
        "the-same-words-twice", ("1 no such column: price",), "Failed", "RepeatedError",
        (("ApplicationError", True), ("ApplicationError", False)),
    ),
    Ending(
        "other-words-each-time", ("1 first", "1 second", "1 third"), "Failed", "BackoffLimitExceeded",
        (("ApplicationError", True),) * 2, backoff_limit=1,
    ),
    Ending("saved-on-notice", ("42", "42", "0"), "Succeeded", "Succeeded", (("Preempted", False),) * 2),
    Ending("wrong-usage", ("64 usage: train.py DATA",), "Failed", "UserError", (("UserError", False),)),
    Ending("command-not-found", ("127",), "Failed", "UserError", (("UserError", False),)),
    Ending("lost-a-peer", ("75", "0"), "Succeeded", "Succeeded", (("PeerLost", True),)),
    Ending("killed", ("137", "0"), "Succeeded", "Succeeded", (("Crash", True),)),
    Ending("terminated-unasked", ("143", "0"), "Succeeded", "Succeeded", (("Crash", True),)),
)  # fmt: skip


WITNESSES = {"saved-on-notice", "the-same-words-twice"}
PARAMETERS = {e.name: pytest.param(e, marks=() if e.name in WITNESSES else pytest.mark.long) for e in ENDINGS}


@pytest.fixture(scope="module")
def scene(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Scene]:
    """The endings of the selected tests, started together."""
    selected = (item for item in request.session.items if isinstance(item, pytest.Function))
    given = (item.callspec.params["ending"] for item in selected if item.module is request.module)
    with own_namespace(cluster, "exit-codes") as scene:
        for ending in {ending.name: ending for ending in given if isinstance(ending, Ending)}.values():
            policy = {"backoffLimit": ending.backoff_limit}
            scene.start(small_job(ending.name, ENDS, *ending.ways, runPolicy=policy))
        yield scene


@pytest.mark.parametrize("ending", PARAMETERS.values(), ids=PARAMETERS)
def test_an_exit_code_is_restarted_counted_or_final_and_described(scene: Scene, ending: Ending) -> None:
    status = scene.ended(ending.name)
    assert status["phase"] == ending.phase, status["summary"]
    assert status["attempt"] == ending.restarts
    assert [(f["reason"], f["counted"]) for f in scene.root_causes(ending.name)] == list(ending.causes)

    printed = scene.printed(ending.name)
    assert printed["PHASE"] == ending.phase
    assert printed["RESTARTS"] == str(ending.restarts)
    final = next(c for c in status["conditions"] if c["type"] == ending.phase)
    assert final["reason"] == ending.reason
    assert printed["MESSAGE"] == final["message"]
    if ending.phase == "Failed":
        code, _, words = ending.ways[min(ending.restarts, len(ending.ways) - 1)].partition(" ")
        assert "worker-0" in printed["MESSAGE"]
        assert f"exit code {code}" in printed["MESSAGE"]
        assert words in printed["MESSAGE"]


@pytest.mark.parametrize("ending", [PARAMETERS[e.name] for e in ENDINGS if e.causes], ids=lambda ending: ending.name)
def test_the_description_names_every_cause_and_what_followed(scene: Scene, ending: Ending) -> None:
    scene.ended(ending.name)
    causes = [f"Reason: {reason} Role: worker Root Cause: true" for reason, _ in ending.causes]
    events = ["Warning Restarting"] if ending.restarts else []
    scene.await_description(
        ending.name, *causes, *events, f"Normal {ending.phase}" if ending.phase == "Succeeded" else "Failed"
    )
