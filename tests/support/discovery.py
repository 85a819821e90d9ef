"""An API server whose answers to discovery a test chooses, before an `OptionalApi`."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from tfdist.api.gang_system import Availability
from tfdist_operator.cache.optional_api import OptionalApi
from tfdist_operator.kube.errors import ApiError, NotFoundError, UnavailableError, error_for

ABSENT = NotFoundError(404, "NotFound", "the server could not find the requested resource")
FORBIDDEN = error_for(403, "Forbidden", 'User "x" cannot get path "/apis/kueue.x-k8s.io"')
SILENT = UnavailableError(503, "ServiceUnavailable", "no answer")

Answer = dict[str, Any] | ApiError


class FakeInformer:
    """An informer whose first list comes at once, or when `synced` is set."""

    name = "objects"

    def __init__(self, *, listed: bool) -> None:
        self.synced = asyncio.Event()
        self._listed = listed
        self.runs = False

    async def run(self) -> None:
        """List and watch until cancelled."""
        self.runs = True
        if self._listed:
            self.synced.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.runs = False


class Discovery:
    """An API server that gives its answers in order, and then none.

    `published` has the availability after each change, and `states` at each request, with whether a watch runs.
    `listed` are the versions whose objects can be listed; None is all.
    """

    def __init__(
        self, discover: Callable[..., Awaitable[str]], *answers: Answer, listed: Sequence[str] | None = None
    ) -> None:
        self._answers = list(answers)
        self._listed = listed
        self._exhausted = asyncio.Event()
        self.informers: list[FakeInformer] = []
        self.asked: list[str] = []
        self.published: list[Availability] = []
        self.versions: list[str] = []
        self.states: list[tuple[Availability, bool]] = []
        self.api = OptionalApi(self, "objects", discover, self._make, self._changed, self._sleep)  # type: ignore[arg-type]

    async def request(self, _method: str, path: str, **_: object) -> dict[str, Any]:
        """Return the next answer."""
        self.asked.append(path)
        self.states.append((self.api.availability, any(informer.runs for informer in self.informers)))
        if not self._answers:
            self._exhausted.set()
            await asyncio.Event().wait()
        answer = self._answers.pop(0)
        if isinstance(answer, ApiError):
            raise answer
        return answer

    def _make(self, version: str) -> Sequence[FakeInformer]:
        self.informers.append(FakeInformer(listed=self._listed is None or version in self._listed))
        return self.informers[-1:]

    def _changed(self) -> None:
        self.published.append(self.api.availability)
        self.versions.append(self.api.version)

    async def _sleep(self, _seconds: float) -> None:
        for _ in range(10):
            await asyncio.sleep(0)

    async def run(self, *, list_late: bool = False) -> "Discovery":
        """Run until the answers are used up; with `list_late`, the first lists come then."""
        task = asyncio.create_task(self.api.run())
        await self._exhausted.wait()
        await self._sleep(0)
        for informer in self.informers if list_late else ():
            informer.synced.set()
        await self._sleep(0)
        assert not task.done()
        task.cancel()
        return self
