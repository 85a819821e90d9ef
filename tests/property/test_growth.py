"""Nothing grows faster than its input: whatever a tenant writes, four times as much costs about four times the time.

The controller serves all tenants in one loop, so that a function whose time grows with the square of a manifest, a
termination message or a number of pods would stop it for all of them. `TABLE` names the functions that read what
tenants write, and hostile inputs of each. A ratio of CPU times is compared, not a time, so that the result does not
depend on the machine.
"""

import gc
import importlib
import inspect
import json
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple, cast

import pytest
from pydantic import BaseModel, ValidationError
from support.factories import INSTALLATION, NOW, manifest, pod, view_of
from support.sweep_jobs import trial_job
from support.sweeps import sweep_manifest

from tfdist.api.gang_status import GangStatus
from tfdist.api.sweep import SweepEarlyStopping, TFDistSweep, TFDistSweepSpec
from tfdist.api.sweep_status import TFDistSweepStatus
from tfdist.client.errors import RequirementsError
from tfdist.client.report import Masking
from tfdist.contract import JOB_ENV, Restarts, Role, Task
from tfdist.failure_classification import EVICTED
from tfdist.observed.gang_state import GangState, gang_state
from tfdist.observed.job_view import ProbeResult
from tfdist.observed.pod import PodSummary
from tfdist.observed.probe import Unreported
from tfdist.planner.context import PlanContext
from tfdist.programs.tabular import TabularConfig
from tfdist.render import names as names_of
from tfdist.render.fingerprint import fingerprint
from tfdist.render.gang import Gang, GangName, Member
from tfdist.report_response import ReportResponse
from tfdist.sweep_planner import SweepView
from tfdist.sweeps.early_stopping import Point
from tfdist.validation import FieldError, parse
from tfdist_operator.kube.json_bodies import LineBuffer

LEAST_SECONDS = 0.002
"""CPU time from which two times are compared: shorter ones are mostly noise."""
LEAST_SHARE = 4
"""How much longer than an input of size 1 an input takes whose time is compared, so that its size matters."""
MOST = 2**16
"""Largest size that is tried, in units of the input such as clauses: what takes less time there is bounded, or so fast
that only its part of a longer time could be seen."""
LARGEST_RATIO = 8.0
"""Of the time of four times the input: it is 4 if the time is linear, 5 with a logarithm, and 16 if it is quadratic."""
ATTEMPTS = 6
"""Measurements of a pair, of which the shortest times count: another process can only make them longer."""

Arguments = tuple[Any, ...]


class Row(NamedTuple):
    """A function by its path, a class of hostile inputs, and what makes the calls for an input of size n."""

    function: str
    content: str
    calls: Callable[[int], list[Arguments]]
    keywords: Mapping[str, Any] = MappingProxyType({})


def row(function: str, content: str, make: Callable[[int], Any]) -> Row:
    """Return the row of one call with one argument."""
    return Row(function, content, lambda n: [(make(n),)])


def texts(
    function: str,
    contents: Mapping[str, Callable[[int], str]],
    *before: Any,
    wrap: Callable[[str], Any] = str,
    **keywords: Any,
) -> list[Row]:
    """Return the rows of a function that gets a text, or a value that `wrap` makes of it, after other arguments."""

    def of(make: Callable[[int], str]) -> Callable[[int], list[Arguments]]:
        return lambda n: [(*before, wrap(make(n)))]

    return [Row(function, content, of(make), keywords) for content, make in contents.items()]


def repeated(unit: str, before: str = "", after: str = "") -> Callable[[int], str]:
    return lambda n: before + unit * n + after


def numbered(unit: str) -> Callable[[int], str]:
    return lambda n: "".join(unit.format(number) for number in range(n))


TRACEBACK = "Traceback (most recent call last):\n"
HOSTILE = {
    "blanks": repeated(" ", after="x"),
    "tabs": repeated("\t", after="x"),
    "lines of blanks": repeated(" \n"),
    "letters": repeated("a"),
    "quotes": repeated('"'),
    "backslashes": repeated("\\"),
    "brackets": repeated("["),
    "braces": repeated("{"),
    "clauses": numbered("a b{}; "),
    "the same clause": repeated("a b; "),
    "parts of a clause": repeated("a: "),
    "clauses of many parts": numbered("a: b{}: c: d; "),
    "control characters": repeated("\x1b"),
    "digits": repeated("9"),
    "names with dots": repeated("a."),
    "names with dashes": repeated("a-"),
}
"""Texts of any kind."""
REQUIREMENTS = {
    "requirements": repeated("a==1 \\\n --hash=sha256:00\n"),
    "continued lines": repeated("a\\\n"),
    "comments": repeated(" #"),
    "options": repeated("-f a "),
    "open quotes": repeated("-f 'a\n"),
    "URLs": repeated("a @ b:"),
    "dots": repeated("."),
    "hashes": repeated(" --hash=a", before="a==1"),
}
"""Files of pip."""
NAMES = {name: HOSTILE[name] for name in ("letters", "digits", "names with dots", "names with dashes")}
"""Texts that are names, keys or numbers."""
QUOTED = {name: HOSTILE[name] for name in ("quotes", "backslashes", "control characters")}
OUTPUT = {
    "nodes": repeated(" [[a]] "),
    "operations": repeated("[Op:"),
    "operations after blanks": repeated(" " * 16 + "[Op:"),
    "functions of nodes": repeated("{{function_node "),
    "tracebacks": repeated(TRACEBACK),
    "lines that end with a colon": repeated("a:\n", before=TRACEBACK),
    "frames": repeated('  File "a", line 1\n', before=TRACEBACK),
    "frames of a graph": repeated('  File "a", line 1\n', before=f"{TRACEBACK}E: Graph execution error:\n"),
    "exceptions of a group": repeated("  | ExceptionGroup: a\n", before=f"  + Exception Group {TRACEBACK}"),
    "names of exceptions": repeated("Error."),
    "exceptions without a traceback": repeated("Error:\n"),
    "errors in a graph without a traceback": repeated("Error: Graph execution error:\n"),
    "a chain in a group": repeated("  | Error: a\n  | During handling of the above exception\n", after="  +---\n"),
    "a group without a traceback": repeated("  | Error: a\n", after="  +---\n"),
    "frames without a traceback": repeated('  File "a", line 1, in a\n'),
}
"""Ends of the output of a program."""


SECRETS = {
    "schemes": repeated("https://"),
    "users without an end": repeated("://a:"),
    "users": repeated("https://a:b@"),
    "parameters": repeated("?a-token&"),
    "names in a parameter": repeated("a.signature", before="https://a?"),
    "options": repeated("-a.-"),
    "options with a word": repeated("--my-token  "),
    "assignments": repeated("api_key="),
    "quoted assignments": repeated('\\"secret\\": \\"'),
    "names of secrets": repeated("secret_token"),
    "headers": repeated("authorization: bearer "),
    "logins": repeated("login a "),
    "begins of keys": repeated("-----BEGIN PRIVATE KEY-----\n"),
    "a key without an end": repeated("QUJD\n", before="-----BEGIN RSA PRIVATE KEY-----\n"),
    "tokens without an end": repeated("eyJaaaaaaaaa."),
    "begins of tokens": repeated("ghp_sk-hf_"),
}
"""Texts that are nearly secrets."""


INDEPENDENT = {"strategy": "Independent", "runPolicy": {"backoffLimit": 1000}}
"""Of a job whose replicas restart alone, with the largest limit of restarts."""


def plan_of(pods: list[PodSummary], spec: dict[str, Any] | None = None, **changes: Any) -> list[Arguments]:
    """Return the call of the plan of a job that has begun, with these workers."""
    job = parse(manifest(without=("training",), image="x", worker={"replicas": len(pods)}, **(spec or {})))
    fields: dict[str, Any] = {
        "job": job,
        "template": fingerprint(job),
        "problems": (),
        "managed_by": None,
        "generation": 1,
        "status": {
            "phase": "Running",
            "gangs": {"training": {"attempt": 0, "lastFullRestart": 0, "hasRun": True, "inPlace": True}},
        },
        "pods": tuple(pods),
    }
    return [(view_of(**fields | changes), NOW, INSTALLATION)]


def failed(n: int, message: str, **changes: Any) -> list[PodSummary]:
    return [pod(f"worker-{i}", "F", message=message, **{"exit_code": 1, **changes}) for i in range(n)]


def gang_with(pods: list[PodSummary], **changes: Any) -> tuple[PlanContext, GangState]:
    """Return the state of a gang with these workers, and its context."""
    ((view, now, installation),) = plan_of(pods[:1], **changes)
    context = PlanContext(replace(view, pods=tuple(pods)), view.job, now, installation, None)
    return context, gang_state(gang_of(len(pods)), GangStatus(), pods)


def silent_peers(n: int) -> list[Arguments]:
    """Return a gang of which one replica has lost a peer, and names of others that do not answer."""
    pods = [*failed(1, "lost", exit_code=75), *(pod(f"worker-{number}") for number in range(1, n))]
    silent = ProbeResult("peer failure in attempt 0", "", "", tuple(f"ps-{number}" for number in range(n)))
    return [gang_with(pods, probe_result=silent)] * 16


def gave_up(n: int) -> GangState:
    """Return a gang whose launchers have given up, each because of the last one."""
    restarts = Restarts().model_dump(by_alias=True)
    end = {"role": "worker", "index": n - 1, "round": 1, "reason": "Crash", "restarts": restarts}
    return gang_with(failed(n, json.dumps({"reason": "Crash", "message": "x", "gangEnd": end})))[1]


def invalid(n: int) -> list[Arguments]:
    """Return the call of the plan of an invalid job."""
    problems = tuple(FieldError(f"spec.template.spec.x{number}", "unknown field") for number in range(n))
    return plan_of([pod("worker-0")], job=None, problems=problems)


def with_sidecars(n: int) -> list[Arguments]:
    pods = [pod(f"worker-{number}", "S", sidecars_run=True) for number in range(n)]
    return [(pods, [each.name for each in reversed(pods)])] * 16


def rungs(n: int) -> tuple[dict[int, dict[int, float]], dict[int, Point]]:
    """Return n trials that have passed all rungs, half of them since the last call."""
    before = {step: {trial: trial / n for trial in range(n // 2)} for step in range(1, 33)}
    return before, {trial: Point(100_000, (trial * 7 % n) / n) for trial in range(n)}


def judged(method: str) -> Row:
    options = SweepEarlyStopping(method=method, min_steps=1)
    function = f"tfdist.sweeps.early_stopping.{method.lower()}"
    return Row(function, "trials that arrive at once", lambda n: [(options, *rungs(n))], {"maximizes": True})


def sweep_of(n: int, **spec: Any) -> TFDistSweep:
    fields = {"metric": "accuracy", "search": {"trials": n}, "earlyStopping": {"method": "Median", "minSteps": 1}}
    return TFDistSweep.model_validate(sweep_manifest(**fields | spec))


PARAMETERS = [{"name": "a", "env": "A", "values": [1]}]


def gang_of(n: int) -> Gang:
    return Gang(GangName.TRAINING, Task.TRAIN, tuple(Member(Role.WORKER, number) for number in range(n)))


def trials(n: int) -> list[Arguments]:
    """Return the call of the plan of a sweep; it has at most 500 trials, so that they are no larger unit than it."""
    jobs = {trial: trial_job(value=trial / n, step=100_000) for trial in range(n)}
    return [(SweepView(sweep_of(n), (), 1, TFDistSweepStatus(), jobs), NOW)]


def long_value(n: int) -> TFDistSweepSpec:
    return sweep_of(500, parameters=[{"name": "a", "values": ["x" * n]}]).spec


def names(n: int, of: str = "name{}") -> list[str]:
    return [of.format(number) for number in range(n)]


def items(n: int, **fields: Any) -> list[dict[str, Any]]:
    return [{"name": name, **fields} for name in names(n)]


def env(n: int) -> tuple[dict[str, Any], dict[str, Any]]:
    return {"env": items(n, value="a")}, {"env": items(n, value="b")[::-1]}


def job(**pod_spec: Any) -> dict[str, Any]:
    return manifest(without=("training",), image="x", template={"spec": pod_spec})


def wrong_classes(n: int) -> Arguments:
    config = {"data": {"train": "x"}, "numeric": ["a"], "classes": list(range(n))}
    return *_error_of(TabularConfig, config), "spec.training.config", "remove it"


def empty_categories(n: int) -> Arguments:
    config = {"data": {"train": "x"}, "categorical": {name: [] for name in names(n)}}
    return *_error_of(TabularConfig, config), "spec.training.config", "remove it"


def _error_of(model: type[BaseModel], content: dict[str, Any]) -> Arguments:
    with pytest.raises(ValidationError) as raised:
        model.model_validate(content)
    return raised.value, model, content


def raw_pod(**status: Any) -> dict[str, Any]:
    labels = {names_of.ROLE_LABEL: "worker"} | dict.fromkeys(
        (names_of.INDEX_LABEL, names_of.ATTEMPT_LABEL, names_of.JOB_UID_LABEL), "0"
    )
    meta = {"name": "a", "namespace": "b", "uid": "c", "resourceVersion": "1", "labels": labels}
    return {"metadata": meta, "status": status}


def owners(n: int) -> dict[str, Any]:
    return {"ownerReferences": [{"uid": name, "kind": "A", "name": name, "controller": False} for name in names(n)]}


def with_owners(n: int) -> dict[str, Any]:
    raw = raw_pod()
    return raw | {"metadata": raw["metadata"] | owners(n)}


def pieces(n: int) -> list[Arguments]:
    buffer = LineBuffer()
    return [(buffer, b"a" * 16)] * n


def segments(n: int) -> list[Arguments]:
    response = ReportResponse(MOST)
    response.feed(b"HTTP/1.1 200 OK\r\n\r\n")
    return [(response, b"a")] * n


def wide(n: int) -> bytes:
    return b'{"a":[%b]}' % b",".join([b"[]"] * n)


def deep(n: int) -> bytes:
    return b'{"a":' + b"[" * n + b"]" * n + b"}"


def open_string(n: int) -> bytes:
    return b"[" * 300 + b"x" * n + b'"' + b"x" * n


TABLE: tuple[Row, ...] = (
    *texts("tfdist.status.text.message", HOSTILE),
    *texts("tfdist.status.text.is_printable_json", QUOTED),
    row("tfdist.status.text.printable_status", "lists", lambda n: [["a\x1b"] for _ in range(n)]),
    *texts("tfdist.printable.printable", QUOTED),
    *texts("tfdist.printable.printable_line", HOSTILE | QUOTED),
    *texts("tfdist.failure_text.cause_in", HOSTILE | OUTPUT),
    *texts("tfdist.failure_text.may_be_lost_connection", HOSTILE | OUTPUT),
    *texts("tfdist.failure_text.same_cause", NAMES, "a"),
    *texts("tfdist.failure_classification.exceeded_own_storage", {"limits": repeated("exceeds its ")}, EVICTED),
    *texts("tfdist.start_error.exec_error", QUOTED, "StartError"),
    *texts("tfdist.start_error.exec_error", {"commands": repeated('exec: "a": ')}, "StartError"),
    *texts("tfdist.start_error.exec_error", {"open quotes": repeated('exec: "')}, "StartError"),
    *texts("tfdist.termination.termination_message", {"objects": repeated('{"a":'), "blanks": repeated(" ")}),
    *texts("tfdist.regex.search", NAMES, "(a|a*)*b$"),
    row("tfdist.observed.termination.failure_message", "blanks", lambda n: failed(1, " " * n + "x")[0]),
    row("tfdist.observed.pod.summarize", "owners", with_owners),
    row(
        "tfdist.observed.pod.summarize",
        "conditions",
        lambda n: raw_pod(conditions=[{"type": name, "status": "True"} for name in names(n)]),
    ),
    row(
        "tfdist.observed.pod.summarize",
        "containers",
        lambda n: raw_pod(containerStatuses=items(n), initContainerStatuses=items(n)),
    ),
    Row(
        "tfdist.observed.gang_state.gang_state",
        "pods of earlier attempts",
        lambda n: [(gang_of(n), GangStatus(attempt=1), [pod(f"worker-{i}") for i in range(n)])],
    ),
    Row(
        "tfdist.observed.probe.probe_result",
        "silent replicas",
        lambda n: [("a", dict.fromkeys(names(n), (Unreported.NO_ANSWER, "x" * 100)), n)],
    ),
    Row("tfdist.planner.plan", "errors of a job", invalid),
    Row("tfdist.planner.plan", "failed replicas", lambda n: plan_of(failed(n, " " * 500))),
    Row(
        "tfdist.planner.plan",
        "failed independent replicas",
        lambda n: plan_of(failed(n, "a: " * 99), INDEPENDENT),
    ),
    row("tfdist.planner.inplace_restart.launcher_termination", "launchers that gave up", gave_up),
    Row("tfdist.planner.peer_failure.unresponsive_peer", "silent replicas", silent_peers),
    Row("tfdist.planner.root_cause.root_cause_of_gang", "failed pods", lambda n: [gang_with(failed(n, "a"))]),
    Row("tfdist.desired.pods.sidecar_patches", "sidecars of deleted pods", with_sidecars),
    judged("Asha"),
    judged("Median"),
    Row(
        "tfdist.sweeps.early_stopping.promoted",
        "stopped trials",
        lambda n: [(SweepEarlyStopping(method="Asha", min_steps=1), rungs(n)[0], frozenset(range(n)))],
        {"maximizes": True},
    ),
    Row("tfdist.sweep_planner.plan_sweep", "trials", trials),
    Row(
        "tfdist.sweeps.trial.job_with_values",
        "variables",
        lambda n: [
            ({"spec": {"template": {"spec": {"env": items(n)}}}}, sweep_of(1, parameters=PARAMETERS), 0, {"a": 1})
        ],
    ),
    row("tfdist.validation.sweep_rules.size_problems", "a long value of all trials", long_value),
    Row(
        "tfdist.validation.environment.too_large",
        "keys of a configuration",
        lambda n: [(JOB_ENV, json.dumps({"training": {"config": dict.fromkeys(names(n), 1)}}))],
    ),
    *texts("tfdist.url_credentials.without_credentials", HOSTILE | SECRETS),
    *texts("tfdist.client.report.patterns_masked", HOSTILE | SECRETS),
    *texts("tfdist.client.report.Masking.text", SECRETS, Masking(), path="a"),
    *texts("tfdist.client.requirements_file.parse", HOSTILE | SECRETS | REQUIREMENTS, label="requirements.txt"),
    *texts("tfdist.printable.escaped_json", QUOTED),
    *texts("tfdist.messages.shorten", {"letters": repeated("a")}),
    *texts("tfdist.messages.format_value", QUOTED),
    row("tfdist.messages.join_path", "long names", lambda n: ["a-" * n, "9" * n]),
    Row("tfdist.messages.suggest", "known names", lambda n: [("name99", names(n))]),
    Row("tfdist.messages.suggest", "a long name", lambda n: [("name" * n, names(50))]),
    *texts("tfdist.podspec.parse_quantity", NAMES),
    Row("tfdist.podspec.merge", "variables of two levels", lambda n: [(*env(n), "Container")]),
    Row(
        "tfdist.podspec.merge",
        "finalizers of two levels",
        lambda n: [({"finalizers": names(n)}, {"finalizers": names(n, "other{}")}, "ObjectMeta")],
    ),
    Row("tfdist.podspec.problems", "unknown fields", lambda n: [(dict.fromkeys(names(n)), "PodSpec", "spec")]),
    Row("tfdist.podspec.problems", "nulls", lambda n: [({"containers": [None] * n}, "PodSpec", "spec")]),
    Row("tfdist.podspec.problems", "duplicates", lambda n: [({"volumes": items(1) * n}, "PodSpec", "spec")]),
    row("tfdist.validation.metadata.metadata_problems", "unknown fields", lambda n: dict.fromkeys(names(n))),
    *texts("tfdist.validation.metadata.label_problems", NAMES, wrap=lambda key: {"labels": {key: "a"}}, path="a"),
    Row("tfdist.validation.config_errors.config_errors", "wrong classes", lambda n: [wrong_classes(n)]),
    Row("tfdist.validation.config_errors.config_errors", "empty lists", lambda n: [empty_categories(n)]),
    *texts("tfdist.api.network.NetworkPolicyPort.model_validate", NAMES, wrap=lambda name: {"port": f"{name}!"}),
    row("tfdist.validation.parse", "tolerations", lambda n: job(tolerations=[{"key": name} for name in names(n)])),
    row("tfdist.validation.parse", "nested lists", lambda n: job(x=[[] for _ in range(n)])),
    row("tfdist.validation.parse", "nulls", lambda n: job(tolerations=[None] * n)),
    row("tfdist.outcome.read_status", "unknown items", lambda n: {"failures": [{"x": 1}] * n, "conditions": [1] * n}),
    Row("tfdist.report_response.ReportResponse.feed", "single bytes", segments),
    row("tfdist_operator.kube.json_bodies.decode", "brackets", wide),
    row("tfdist_operator.kube.json_bodies.decode", "depth", deep),
    row("tfdist_operator.kube.json_bodies.flatten", "brackets", wide),
    row("tfdist_operator.kube.json_bodies.flatten", "depth", deep),
    row("tfdist_operator.kube.json_bodies.flatten", "a string without an end", open_string),
    row("tfdist_operator.kube.json_bodies.flatten", "line ends after backslashes", lambda n: b"[" * 300 + b'"\\\n' * n),
    Row("tfdist_operator.kube.json_bodies.LineBuffer.feed", "small pieces", pieces),
    *texts("tfdist_operator.kube.errors.error_for", {"quotes": repeated('User "')}, 403, ""),
    row("tfdist_operator.requests.resources.name_conflict_message", "owners", with_owners),
    Row(
        "tfdist_operator.webhook.admission.review",
        "tolerations",
        lambda n: [(job(tolerations=[{"key": name} for name in names(n)]), None, {})],
    ),
)
"""Each function that reads what tenants write: texts, lists, maps and numbers."""


@contextmanager
def without_collections() -> Iterator[None]:
    """Suspend the garbage collector, which visits the objects of all tests."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def resolved(path: str) -> Callable[..., object]:
    """Return the function at a path of its module, and of its class for a method."""
    parts = path.split(".")
    for end in range(len(parts) - 1, 0, -1):
        with suppress(ModuleNotFoundError):
            found: Any = importlib.import_module(".".join(parts[:end]))
            for name in parts[end:]:
                found = getattr(found, name)
            return cast("Callable[..., object]", found)
    raise ModuleNotFoundError(path)


def seconds(row: Row, n: int) -> float:
    """Return the CPU time of the calls with an input of size n."""
    function, calls = resolved(row.function), row.calls(n)
    with without_collections():
        start = time.process_time()
        for arguments in calls:
            with suppress(ValueError, RequirementsError):  # an input that is rejected
                result = function(*arguments, **row.keywords)
                if isinstance(result, Iterator):
                    deque(result, maxlen=0)
        return time.process_time() - start


@pytest.mark.parametrize("row", TABLE, ids=lambda row: f"{row.function} of {row.content}")
def test_four_times_the_input_costs_no_more_than_eight_times_the_time(row: Row) -> None:
    n, least = 4, max(LEAST_SECONDS, LEAST_SHARE * min(seconds(row, 1) for _ in range(3)))
    while min(seconds(row, n) for _ in range(2)) < least and n < MOST:
        n *= 4
    # A cache of the processor that becomes too small costs more once; what grows with the square does at each size.
    if (cost := excessive_cost(row, n)) and (further := excessive_cost(row, 4 * n)):
        pytest.fail(f"{cost}; {further}")


def excessive_cost(row: Row, n: int) -> str:
    """Return what four times an input of size n costs if that is too much; "" if it is not."""
    shortest, longest = seconds(row, n), seconds(row, 4 * n)
    for _ in range(ATTEMPTS):
        if longest < LARGEST_RATIO * max(shortest, LEAST_SECONDS):
            return ""
        shortest, longest = min(shortest, seconds(row, n)), min(longest, seconds(row, 4 * n))
    return f"{4 * n} cost {longest:.4f} s of CPU, {n} cost {shortest:.4f} s"


def test_the_functions_are_found_by_public_paths() -> None:
    for path in {row.function for row in TABLE}:
        function = resolved(path)
        assert callable(function), path
        assert not any(part.startswith("_") for part in path.split(".")), path
        assert inspect.getdoc(function), path
    assert len({(row.function, row.content) for row in TABLE}) == len(TABLE)
