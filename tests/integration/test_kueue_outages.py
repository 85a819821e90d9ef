"""A job that was given to a queue of a real Kueue never starts outside of it, and never leaves it.

Meanwhile the API server answers otherwise about Kueue's API: while it starts, while Kueue is upgraded, without a right.
`tests/unit/test_kueue_gaps.py` has more of these cases.
"""

import math
import pathlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Self

import pytest
from support.api import Api, Json
from support.controller import controller
from support.gangs import SIZE
from support.history import recorded
from support.holding_proxy import HoldingProxy, holding_proxy
from support.places import finish, phase, pods_of
from support.polling import wait_for
from support.queued_jobs import PODS, QUEUE, WORKLOADS, Quota, await_message, await_phase, set_stop_policy, submit
from support.schedulers import kueue
from support.schedulers.crds import CRDS

pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.usefixtures("kueue")]

GROUP = f"/apis/{kueue.GROUP}"
OBJECTS = f"{GROUP}/.*"
NEW_VERSION = f"{GROUP}/v1beta2/.*"
DEFINITION = f"{CRDS}/workloads.{kueue.GROUP}"
REQUESTS: dict[str, Json] = {
    "label": {"labels": {"kueue.x-k8s.io/queue-name": QUEUE}, "scheduling": {}},
    "queue": {"scheduling": {"queue": QUEUE}},
    "gang": {"scheduling": {"queue": QUEUE, "gang": "Kueue"}},
}
"""How a job requests its queue."""
KINDS = ("running", "queued", "new")


@dataclass(frozen=True)
class Outage:
    """How the API server answers about Kueue for a time."""

    codes: Mapping[str, int]
    """HTTP statuses by the paths of requests."""
    noticed: tuple[str, int]
    """Path and number of requests by which the controller has noticed."""
    times: float = math.inf
    """How many requests have such an answer."""
    new_controller: bool = False
    """A controller starts during the outage."""
    upgrade: bool = False
    """Before it, only the old version is served."""
    without_conversion: bool = False
    """No webhook converts Workloads from the version in which they are stored."""
    phases: Mapping[str, str] = field(default_factory=dict)
    """Of the new jobs that are not `Queued` during the outage."""

    @property
    def starts(self) -> set[str]:
        """The new jobs that start during the outage, without Kueue."""
        return {name for name, phase in self.phases.items() if phase == "Running"}


WITHOUT_KUEUE = {"new-label": "Running", "new-queue": "Starting"}
OUTAGES = {
    "403 on discovery": Outage({GROUP: 403}, (GROUP, 1)),
    "404 on discovery, once": Outage({GROUP: 404}, (GROUP, 1), times=1),
    "404 on discovery, as without Kueue": Outage({GROUP: 404}, (GROUP, 2), phases=WITHOUT_KUEUE),
    "403 on objects for a new controller": Outage({OBJECTS: 403}, (OBJECTS, 2), new_controller=True),
    "a new version": Outage({}, (NEW_VERSION, 2), upgrade=True),
    "a new version that cannot be listed": Outage({NEW_VERSION: 500}, (NEW_VERSION, 2), upgrade=True),
    "no conversion for a new controller": Outage({}, (NEW_VERSION, 2), new_controller=True, without_conversion=True),
}


class Story:
    """Jobs of a namespace, and their controller, which reaches the API server through a proxy."""

    def __init__(self, api: Api, namespace: str, folder: pathlib.Path, proxy: HoldingProxy) -> None:
        self.api = api
        self.namespace = namespace
        self._folder = folder
        self._proxy = proxy
        self._controller = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._controller.close()

    def start_controller(self) -> None:
        """Start a controller in the place of the one that runs."""
        self._controller.close()
        self._controller.enter_context(controller(self.api, self._folder, server=self._proxy.address))

    def serve_old_version_only(self) -> None:
        """Leave the old version alone in the discovery of Kueue's group."""
        group = self.api.do("GET", GROUP)
        versions = [each for each in group["versions"] if each["version"] == "v1beta1"]
        self._proxy.answer(GROUP, 200, group | {"versions": versions, "preferredVersion": versions[0]})

    def submit(self, kind: str, usual: str, **phases: str) -> list[str]:
        """Create a job for each way to request a queue; return their names when each is in its phase."""
        for how, fields in REQUESTS.items():
            submit(self.api, self.namespace, f"{kind}-{how}", **fields)
        names = [f"{kind}-{how}" for how in REQUESTS]
        for name in names:
            await_phase(self.api, self.namespace, name, phases.get(name, usual))
        return names

    @contextmanager
    def outage(self, outage: Outage) -> Iterator[None]:
        """Begin an outage and wait until the controller has noticed; end it after the block."""
        path, number = outage.noticed
        if outage.upgrade:
            self._proxy.pass_all_on()
        for each, code in outage.codes.items():
            self._proxy.answer(each, code, times=outage.times)
        before = self._proxy.count(path)
        with conversion_without_answer(self.api) if outage.without_conversion else nullcontext():
            if outage.new_controller:
                self.start_controller()
            wait_for("the controller to notice", lambda: self._proxy.count(path) >= before + number)
            yield
        self._proxy.pass_all_on()

    def phases(self, names: Iterable[str]) -> list[str]:
        return [phase(self.api, self.namespace, name) for name in names]

    def with_pods(self, names: Iterable[str]) -> set[str]:
        """Return the jobs that have pods."""
        return {name for name in names if pods_of(self.api, self.namespace, name)}


@contextmanager
def conversion_without_answer(api: Api) -> Iterator[None]:
    """Let no webhook answer that converts Workloads, until the block ends."""
    conversion: Json = api.do("GET", DEFINITION)["spec"]["conversion"]
    dead = {"webhook": {"clientConfig": {"url": "https://127.0.0.1:1/convert"}}}
    api.do("PATCH", DEFINITION, {"spec": {"conversion": dead}}, "merge-patch")
    try:
        yield
    finally:
        api.do("PATCH", DEFINITION, {"spec": {"conversion": conversion}}, "merge-patch")


def live(story: Story, outage: Outage) -> None:
    """Let jobs live through an outage, and check what they do during it and after it."""
    # given a queue with quota for three jobs, which run, and three that wait
    kueue.create_queue(story.api, story.namespace, QUEUE, cpu=3 * SIZE)
    running = story.submit("running", "Running")
    queued = story.submit("queued", "Queued")
    for name in queued:
        await_message(story.api, story.namespace, name, "insufficient unused quota")
    with story.outage(outage):
        # when new jobs come during the outage
        new = story.submit("new", "Queued", **outage.phases)
        # then they wait, and the others go on or wait as before
        assert story.phases(running) == ["Running"] * len(running)
        assert story.phases(queued) == ["Queued"] * len(queued)
        assert story.with_pods([*queued, *new]) == outage.starts
        # when Kueue evicts all that it has admitted, and the outage ends
        set_stop_policy(story.api, story.namespace, "HoldAndDrain")
    # then these stop
    in_queue = [name for name in (*running, *queued, *new) if name not in outage.starts]
    wait_for("all to wait", lambda: set(story.phases(in_queue)) == {"Queued"}, context=lambda: str(in_queue))
    assert not story.with_pods(in_queue)
    # when the queue is started again
    set_stop_policy(story.api, story.namespace, "None")
    # then all run in the end
    finish(story.api, story.namespace, [*running, *queued, *new])


@pytest.mark.parametrize("outage", OUTAGES.values(), ids=OUTAGES.keys())
def test_queued_running_and_new_jobs_stay_in_their_queue(
    api: Api, namespace: str, tmp_path: pathlib.Path, outage: Outage
) -> None:
    # a watch does not survive a change of the definition
    paths = [] if outage.without_conversion else [PODS, WORKLOADS]
    with (
        recorded(api, paths) as changes,
        holding_proxy(api) as proxy,
        Story(api, namespace, tmp_path, proxy) as story,
    ):
        if outage.upgrade:
            story.serve_old_version_only()
        story.start_controller()
        live(story, outage)
    # and at no time was there a pod without quota, or quota released while a pod lived
    quota = Quota()
    for change in changes:
        if change.namespace == namespace and change.object["metadata"]["labels"]["tfdist.dev/job"] not in outage.starts:
            quota.add(change)
    jobs = {f"{kind}-{how}" for kind in KINDS for how in REQUESTS} - outage.starts
    assert quota.workloads.keys() == (jobs if paths else set())
