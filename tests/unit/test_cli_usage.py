"""What `tfdist top` and `tfdist cost` print of fixed jobs, and what they reject before any request."""

import contextlib
import json
import pathlib
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

import pytest
from rich.cells import cell_len
from support.stored_jobs import FAILED, JOBS, LATER, NEW, RUNNING, at, stored

from tfdist.cli.commands.usage import document, read_prices
from tfdist.cli.errors import CommandError
from tfdist.cli.main import main
from tfdist.cli.object_table import Prices, Spent, cost_table, spent, top_table, total
from tfdist.client.errors import Forbidden
from tfdist.client.watch import watch_collection

if TYPE_CHECKING:
    from tfdist.client.api_server import ApiServer

PRICES = Prices(2.0, 0.5, "EUR")


def test_what_a_job_uses_since_the_last_write_is_added() -> None:
    used = spent(RUNNING, LATER)
    assert used.gpu_hours == pytest.approx((9000 + 2 * 1800) / 3600)
    assert used.cpu_hours == pytest.approx((18000 + 4.5 * 1800) / 3600)
    assert spent(RUNNING, LATER - timedelta(days=1)).gpu_hours == 2.5, "a clock that is behind takes nothing away"


def test_shares_are_of_the_time_in_which_attempts_ran() -> None:
    used = spent(RUNNING, LATER)
    assert (used.productive, used.lost) == (2700 / 3600, 180 / 3600)
    assert (spent(FAILED, LATER).productive, spent(NEW, LATER).gpu_hours) == (None, 0.0)


def test_the_time_of_attempts_that_are_no_longer_listed_counts() -> None:
    status = {"startTime": at(7000), "attempts": [{"attempt": 30, "startedAt": at(1000), "endedAt": at(600)}]}
    assert spent(stored("old", status), LATER).attempt_seconds == 6000 + 400


def test_top_shows_the_jobs_with_most_gpus_first() -> None:
    assert top_table([NEW, RUNNING], width=None, namespaces=False, colour=False) == [
        "NAME      PHASE     READY   GPUS   CPUS   STEP   EXAMPLES/S   STEP TIME",
        "fashion   Running   2/3     2      4.5    747    7,462        34.3 ms",
        "new       Pending",
    ]


@pytest.mark.parametrize("width", [40, 80])
def test_each_job_of_top_is_one_line_of_a_terminal(width: int) -> None:
    lines = top_table(JOBS, width=width, namespaces=True, colour=False)
    assert len(lines) == len(JOBS) + 1
    assert max(map(cell_len, lines)) <= width


def test_cost_sums_up_several_jobs() -> None:
    used = [(job, spent(job, LATER)) for job in (RUNNING, NEW)]
    assert cost_table(used, PRICES, width=None, namespaces=True) == [
        "NAMESPACE   NAME      GPU HOURS   CPU HOURS   PRODUCTIVE   LOST   COST (EUR)",
        "team        fashion   3.50        7.25        75%          5%     10.62",
        "team        new       0.00        0.00                            0.00",
        "            TOTAL     3.50        7.25        75%          5%     10.62",
    ]


def test_one_job_has_no_sum_and_without_prices_there_is_no_cost() -> None:
    headings, row = cost_table([(RUNNING, spent(RUNNING, LATER))], None, width=None, namespaces=False)
    assert "COST" not in headings
    assert row.split()[0] == "fashion"


def test_shares_of_a_sum_are_weighted_by_time() -> None:
    assert total([Spent(0, 0, 100, 100, 0), Spent(0, 0, 300, 0, 100)]).productive == 0.25


def test_cost_as_json_has_numbers_and_leaves_out_what_is_not_known() -> None:
    found = json.loads(json.dumps(document([(RUNNING, spent(RUNNING, LATER)), (NEW, spent(NEW, LATER))], PRICES)))
    assert found["jobs"][0] == {
        "namespace": "team",
        "name": "fashion",
        "gpuHours": 3.5,
        "cpuHours": 7.25,
        "productiveShare": 0.75,
        "lostShare": 0.05,
        "cost": 10.625,
    }
    assert found["jobs"][1].keys() == {"namespace", "name", "gpuHours", "cpuHours", "cost"}
    assert (found["total"]["cost"], found["currency"]) == (10.625, "EUR")
    assert "cost" not in document([(RUNNING, spent(RUNNING, LATER))], None)["total"]


def test_prices_are_read_from_yaml(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "prices.yaml"
    path.write_text("gpuHour: 2\ncpuHour: 0.5\ncurrency: EUR\n", encoding="utf-8")
    assert read_prices(path) == PRICES


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "write the fields gpuHour, cpuHour and currency"),
        ("- 1", "write the fields gpuHour, cpuHour and currency"),
        ("gpuHours: 2", "write the fields gpuHour, cpuHour and currency"),
        ("gpuHour: two", "gpuHour: write a number, such as 2.5"),
        ("cpuHour: -1", "cpuHour: write a number, such as 2.5"),
        ("cpuHour: true", "cpuHour: write a number, such as 2.5"),
        ("currency: 5", "currency: write text, such as EUR"),
    ],
)
def test_prices_that_are_none_are_one_line(tmp_path: pathlib.Path, content: str, reason: str) -> None:
    path = tmp_path / "prices.yaml"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(CommandError) as caught:
        read_prices(path)
    assert reason in str(caught.value)
    assert str(caught.value).startswith(f"--prices {path}: ")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["cost", "--since", "yesterday"], "--since yesterday: write a duration"),
        (["cost", "--since", "999999999999d"], "--since 999999999999d: is too long"),
        (["cost", "--prices", "/no/such/file"], "--prices /no/such/file: No such file or directory"),
        (["cost", "fashion", "-A"], "fashion is a job of one namespace: leave out -A, or the name"),
    ],
)
def test_wrong_usage_of_cost_is_one_line_before_any_request(
    arguments: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith(reason)
    assert error.count("\n") == 1


@pytest.mark.parametrize("command", ["top", "cost"])
def test_each_command_has_help_with_its_exit_codes(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--help"]) == 0
    assert "  Exits " in capsys.readouterr().out


class OneStream:
    """An API server with one list and the answers to its watches; it counts requests."""

    def __init__(self, lists: list[list[str]], watches: list[list[tuple[str, str]]]) -> None:
        self._lists, self._watches = lists, watches
        self.requests: list[str] = []

    def request(self, method: str, _path: str, query: Mapping[str, Any]) -> dict[str, Any]:
        self.requests.append(method)
        assert not query, "all jobs are requested"
        return {"items": [named(name) for name in self._lists.pop(0)], "metadata": {"resourceVersion": "7"}}

    @contextlib.contextmanager
    def stream(self, _path: str, query: Mapping[str, Any]) -> Iterator[Iterator[bytes]]:
        self.requests.append(f"WATCH {query['resourceVersion']}")
        if not self._watches:
            raise Forbidden("enough")
        events = [{"type": kind, "object": named(name)} for kind, name in self._watches.pop(0)]
        yield iter([f"{json.dumps(event)}\n".encode() for event in events])


def named(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": name}}


def test_all_changes_of_jobs_come_from_one_watch_and_after_its_end_the_jobs_are_listed_again() -> None:
    # given
    watch = [("ADDED", "b"), ("MODIFIED", "a"), ("DELETED", "a"), ("ERROR", "expired"), ("ADDED", "never")]
    api = OneStream([["a"], ["c"]], [watch])
    changes = watch_collection(cast("ApiServer", api), "/jobs")
    # when
    seen = [[each["metadata"]["name"] for each in next(changes)] for _ in range(5)]
    with pytest.raises(Forbidden):
        next(changes)
    # then
    assert seen == [["a"], ["a", "b"], ["a", "b"], ["b"], ["c"]]
    assert api.requests == ["GET", "WATCH 7", "GET", "WATCH 7"]
