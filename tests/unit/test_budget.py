"""Work on an object that exceeds its budget of CPU time is interrupted, wherever it is, and nothing else is."""

import threading
import time
from collections import Counter
from collections.abc import Iterator

import pytest

from tfdist_operator.budget import Budget, BudgetExceeded


@pytest.fixture
def budget() -> Iterator[Budget]:
    """A budget of 20 ms whose overdue work is interrupted in a loop."""
    made, over = Budget(0.02), threading.Event()

    def watch() -> None:
        while not over.wait(0.001):
            made.interrupt_overdue()

    watcher = threading.Thread(target=watch)
    watcher.start()
    yield made
    over.set()
    watcher.join()


def endless() -> None:
    """Run for ever, whatever exception is raised."""
    while True:
        try:
            while True:
                pass
        except Exception:  # noqa: S112  as product code that continues after an error
            continue


def test_work_returns_its_result_and_its_cpu_time() -> None:
    result, seconds = Budget().run("planning of a/b", lambda: sum(range(100_000)))
    assert result == 4_999_950_000
    assert 0 < seconds < 5


def test_endless_work_is_interrupted_although_it_handles_every_exception(budget: Budget) -> None:
    for _ in range(3):
        with pytest.raises(BudgetExceeded, match=r"the planning of a/b took more than 0.02 s of CPU time"):
            budget.run("planning of a/b", endless)
    assert budget.current == ""


def test_work_that_waits_uses_no_budget(budget: Budget) -> None:
    assert budget.run("planning of a/b", lambda: time.sleep(0.1))[0] is None


def test_the_error_of_work_is_raised(budget: Budget) -> None:
    with pytest.raises(ZeroDivisionError):
        budget.run("planning of a/b", lambda: 1 // 0)
    assert budget.current == ""


def test_part_of_work_has_the_limit_of_the_whole(budget: Budget) -> None:
    def parsing() -> None:
        budget.run("parsing of a/b", lambda: None)
        endless()

    with pytest.raises(BudgetExceeded, match="planning"):
        budget.run("planning of a/b", parsing)


def test_the_object_that_is_worked_on_is_known_in_another_thread() -> None:
    budget, running, go_on = Budget(), threading.Event(), threading.Event()

    def held() -> None:
        running.set()
        assert go_on.wait(240)

    worker = threading.Thread(target=budget.run, args=("planning of a/b", held))
    worker.start()
    assert running.wait(240)
    assert budget.current == "planning of a/b"
    go_on.set()
    worker.join()
    assert budget.current == ""


def test_an_interruption_never_leaves_the_work_it_is_meant_for() -> None:
    """Given work that ends at any moment around its interruption; then it returns or is interrupted."""
    budget, over = Budget(0.0), threading.Event()

    def watch() -> None:
        while not over.is_set():
            budget.interrupt_overdue()

    watcher = threading.Thread(target=watch)
    watcher.start()
    ends: Counter[str] = Counter()
    try:
        while min(ends["returned"], ends["interrupted"]) < 50:
            try:
                budget.run("planning of a/b", lambda: sum(range(ends["returned"] % 500)))
                ends["returned"] += 1
            except BudgetExceeded:
                ends["interrupted"] += 1
            assert budget.current == ""
    finally:
        over.set()
        watcher.join()
