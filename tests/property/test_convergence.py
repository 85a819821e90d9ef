"""Any sequence of what can happen to pods and to the controller ends in a final state, and stays there.

The model executes plans against a cluster in memory. Hypothesis chooses what pods do, who is deleted, and after which
request the controller is killed; what a killed controller had done so far stays done.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from support.factories import EVALUATED, NOW, SETTINGS, UID, manifest, words

from tfdist.api.status import TFDistJobStatus
from tfdist.validation import parse
from tfdist_operator.observed.pod import PodState, PodSummary, summarize
from tfdist_operator.observed.view import JobView
from tfdist_operator.planner import Plan, plan
from tfdist_operator.status.phase import is_terminal

JOB = parse(manifest(**EVALUATED, runPolicy={"backoffLimit": 2}))
RESULT = {"step": 9, "checkpoint": "/c/9", "metrics": {"accuracy": 0.9}, "examples": 10, "time": "2030-01-01T00:00:00Z"}
EXITS = (0, 1, 42, 75, 78, 137, 143)


@dataclass
class Model:
    """A cluster with one job. `requests` counts what the controller has done."""

    now: datetime = NOW
    status: dict[str, Any] = field(default_factory=dict)
    pods: dict[str, PodSummary] = field(default_factory=dict)
    requests: int = 0

    def plan(self) -> Plan:
        view = JobView(JOB, (), 1, self.status, tuple(self.pods[n] for n in sorted(self.pods)))
        return plan(view, self.now, SETTINGS)

    def look(self, killed_after: int | None = None) -> Plan:
        """Carry a plan out, or its first `killed_after` requests."""
        todo = self.plan()
        actions: list[Callable[[], object]] = []
        if todo.status is not None:
            actions.append(partial(self._store, todo.status))
        actions += [partial(self._create, made) for made in todo.creates]
        actions += [partial(self.pods.pop, name, None) for name in todo.deletes]
        for action in actions[:killed_after]:
            self.requests += 1
            action()
        return todo

    def _store(self, status: dict[str, Any]) -> None:
        TFDistJobStatus.model_validate(status)
        if is_terminal(self.status):
            assert status["phase"] == self.status["phase"], "a final state was left"
        assert status.get("restarts", {}).get("counted", 0) <= 3
        self.status = status

    def _create(self, made: dict[str, Any]) -> None:
        name = made["metadata"]["name"]
        meta = made["metadata"] | {"uid": name, "resourceVersion": "1"}
        assert meta["labels"]["tfdist.dev/job-uid"] == UID
        if name not in self.pods:  # the API server refuses a second one
            self.pods[name] = summarize(made | {"metadata": meta})

    def happen(self, which: int, what: int | None) -> None:
        """Have a pod start, end with an exit code, or (None) be deleted by somebody."""
        live = sorted(n for n, p in self.pods.items() if not p.ended)
        if not live:
            return
        name = live[which % len(live)]
        pod = self.pods[name]
        if what is None:
            del self.pods[name]
        elif pod.state is PodState.PENDING:
            self.pods[name] = replace(pod, state=PodState.RUNNING, ready=True)
        else:
            message = words(evaluation=RESULT) if what == 0 else ""
            state = PodState.FAILED if what else PodState.SUCCEEDED
            ended = replace(pod, state=state, exit_code=what, ready=False, message=message)
            self.pods[name] = replace(ended, finished_at=self.now.isoformat())

    def go_on(self, kind: str, number: int | None, what: int | None) -> None:
        """Have one happening of a history come true."""
        if kind == "pod":
            self.happen(number or 0, what)
        else:
            self.look(killed_after=number)

    def finish(self) -> None:
        """From now on nothing goes wrong: every pod starts and ends well, and the controller lives."""
        for _ in range(60):
            self.look()
            self.now += timedelta(seconds=400)
            for _ in range(len(self.pods) * 2):
                self.happen(0, 0)


History = list[tuple[str, int | None, int | None]]
HAPPENINGS = st.lists(
    st.one_of(
        st.tuples(st.just("pod"), st.integers(0, 5), st.sampled_from((*EXITS, None))),
        st.tuples(st.just("look"), st.integers(0, 6), st.none()),
        st.tuples(st.just("look"), st.none(), st.none()),
    ),
    max_size=40,
)


@settings(max_examples=600, deadline=None)
@given(HAPPENINGS)
def test_every_history_converges_to_a_final_state_and_rests_there(history: History) -> None:
    model = Model()
    for happening in history:
        model.go_on(*happening)
        model.now += timedelta(seconds=7)
    model.finish()
    assert is_terminal(model.status), model.status
    before = model.requests
    todo = model.look()
    assert model.requests == before, f"an idle job causes requests: {todo}"
    assert all(p.ended for p in model.pods.values())


@settings(max_examples=300, deadline=None)
@given(HAPPENINGS)
def test_a_plan_that_was_carried_out_is_not_planned_again(history: History) -> None:
    model = Model()
    for happening in history:
        model.go_on(*happening)
        model.look()
        model.look()
        attempts = {
            p.role: max(q.attempt for q in model.pods.values() if q.role == p.role) for p in model.pods.values()
        }
        assert all(p.ended or p.attempt == attempts[p.role] for p in model.pods.values()), "an old attempt runs on"
        again = model.plan()
        assert (again.creates, again.deletes, again.events, again.status) == ((), (), (), None)
