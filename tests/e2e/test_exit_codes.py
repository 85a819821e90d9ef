"""What the end of a program leads to, by its exit code, and that a person reads it in what kubectl prints."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from support.e2e import Cluster
from support.failing_jobs import ENDS, JobNamespace, own_namespace, small_job

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]


@dataclass(frozen=True, slots=True)
class ExitCase:
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


EXIT_CASES = (
    ExitCase("success", ("0",), "Succeeded", "Succeeded"),
    ExitCase("an-error-once", ("1", "0"), "Succeeded", "Succeeded", (("ApplicationError", True),)),
    ExitCase(
        "an-error-without-words", ("1",), "Failed", "BackoffLimitExceeded",
        (("ApplicationError", True),) * 2, backoff_limit=1,
    ),
    ExitCase(
        "the-same-words-twice", ("1 no such column: price",), "Failed", "RepeatedError",
        (("ApplicationError", True), ("ApplicationError", False)),
    ),
    ExitCase(
        "other-words-each-time", ("1 first", "1 second", "1 third"), "Failed", "BackoffLimitExceeded",
        (("ApplicationError", True),) * 2, backoff_limit=1,
    ),
    ExitCase("saved-on-notice", ("42", "42", "0"), "Succeeded", "Succeeded", (("Preempted", False),) * 2),
    ExitCase("wrong-usage", ("64 usage: train.py DATA",), "Failed", "UserError", (("UserError", False),)),
    ExitCase("command-not-found", ("127",), "Failed", "UserError", (("UserError", False),)),
    ExitCase("lost-a-peer", ("75", "0"), "Succeeded", "Succeeded", (("PeerLost", True),)),
    ExitCase("killed", ("137", "0"), "Succeeded", "Succeeded", (("Crash", True),)),
    ExitCase("terminated-unasked", ("143", "0"), "Succeeded", "Succeeded", (("Crash", True),)),
)  # fmt: skip


WITNESSES = {"saved-on-notice", "the-same-words-twice"}
PARAMETERS = {e.name: pytest.param(e, marks=() if e.name in WITNESSES else pytest.mark.long) for e in EXIT_CASES}


@pytest.fixture(scope="module")
def jobs(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[JobNamespace]:
    """The cases of the selected tests, started together."""
    selected = (item for item in request.session.items if isinstance(item, pytest.Function))
    cases = (item.callspec.params["case"] for item in selected if item.module is request.module)
    with own_namespace(cluster, "exit-codes") as jobs:
        for case in {case.name: case for case in cases if isinstance(case, ExitCase)}.values():
            policy = {"backoffLimit": case.backoff_limit}
            jobs.start(small_job(case.name, ENDS, *case.ways, runPolicy=policy))
        yield jobs


@pytest.mark.parametrize("case", PARAMETERS.values(), ids=PARAMETERS)
def test_an_exit_code_is_restarted_counted_or_final_and_described(jobs: JobNamespace, case: ExitCase) -> None:
    status = jobs.ended(case.name)
    assert status["phase"] == case.phase, status["summary"]
    assert status["attempt"] == case.restarts
    assert [(f["reason"], f["counted"]) for f in jobs.root_causes(case.name)] == list(case.causes)

    printed = jobs.printed(case.name)
    assert printed["PHASE"] == case.phase
    assert printed["RESTARTS"] == str(case.restarts)
    final = next(c for c in status["conditions"] if c["type"] == case.phase)
    assert final["reason"] == case.reason
    assert printed["MESSAGE"] == final["message"]
    if case.phase == "Failed":
        code, _, words = case.ways[min(case.restarts, len(case.ways) - 1)].partition(" ")
        assert "worker-0" in printed["MESSAGE"]
        assert f"exit code {code}" in printed["MESSAGE"]
        assert words in printed["MESSAGE"]


@pytest.mark.parametrize("case", [PARAMETERS[e.name] for e in EXIT_CASES if e.causes], ids=lambda case: case.name)
def test_the_description_names_every_cause_and_what_followed(jobs: JobNamespace, case: ExitCase) -> None:
    jobs.ended(case.name)
    causes = [f"Reason: {reason} Role: worker Root Cause: true" for reason, _ in case.causes]
    events = ["Warning Restarting"] if case.restarts else []
    jobs.await_description(
        case.name, *causes, *events, f"Normal {case.phase}" if case.phase == "Succeeded" else "Failed"
    )
