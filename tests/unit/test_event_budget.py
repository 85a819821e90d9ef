"""Events of restarts are limited for each job, as client-go limits those of each object."""

from tfdist_operator.cache.runtime_state import BURST, REFILL_SECONDS, EventBudget


def test_a_burst_is_published_and_then_one_event_now_and_then() -> None:
    budget = EventBudget()
    assert [budget.spend(5.0) for _ in range(BURST + 2)] == [True] * BURST + [False] * 2
    assert not budget.spend(5.0 + 0.9 * REFILL_SECONDS)
    assert budget.spend(5.0 + 1.1 * REFILL_SECONDS)
    assert not budget.spend(5.0 + 1.1 * REFILL_SECONDS)


def test_a_budget_that_was_not_used_for_long_is_no_larger_than_a_burst() -> None:
    budget = EventBudget()
    budget.spend(0.0)
    assert [budget.spend(1e9) for _ in range(BURST + 1)] == [True] * BURST + [False]
