"""A cluster without processes for the cost of a job: an API server in memory, its watches, a scheduler and kubelets.

Everything happens at fixed times of a virtual clock (`bench.virtual_time`), so that counts are equal on each machine.
"""

import asyncio
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Final

from support.factories import NOW
from support.fake_api import FakeApi, merge_patch

from tfdist.timestamps import rfc3339
from tfdist_operator.kube.client import JSON, ApiClient
from tfdist_operator.kube.errors import error_for
from tfdist_operator.kube.json_bodies import Json

WATCH_SECONDS: Final = 0.002
"""Time from a change to its event."""
REQUEST_SECONDS: Final = 0.003
BIND_SECONDS: Final = 0.02
"""Time until the first pod has a node; each further one takes the next one a `STEP_SECONDS`."""
STEP_SECONDS: Final = 0.005
CONTAINER_SECONDS: Final = 0.03
"""Time from the node to the kubelet's first status."""
START_SECONDS: Final = 1.0
"""Time from there until the container runs."""
STOP_SECONDS: Final = 0.2
"""Time from the deletion of a running pod to its end."""
_ERROR: Final = 400
_POD: Final = "/pods/"


class SimulatedCluster(FakeApi):
    """An API server whose watches call `deliver` with `ADDED`, `MODIFIED` or `DELETED`, the path, and the object."""

    def __init__(self, deliver: Callable[[str, str, Json], None]) -> None:
        super().__init__()
        self._deliver = deliver
        self._created = 0

    def put(self, path: str, content: Json) -> Json:
        """Store an object and report it to the watches; a new pod gets a node, and runs."""
        is_new = path not in self.objects
        meta = content["metadata"] | ({"creationTimestamp": self._time()} if is_new else {})
        stored = super().put(path, content | {"metadata": meta})
        self._report("ADDED" if is_new else "MODIFIED", path, stored)
        if is_new and _POD in path:
            self._created += 1
            asyncio.get_running_loop().create_task(self._run(path, self._created % 1000))
        return stored

    async def respond(
        self, method: str, path: str, query: Mapping[str, str], body: Any, content_type: str
    ) -> tuple[int, Any]:
        """Return the answer of a request after the time of one; report a deletion to the watches."""
        await asyncio.sleep(REQUEST_SECONDS)
        before = self.objects.get(path)
        answer = await super().respond(method, path, query, body, content_type)
        if method == "DELETE" and before is not None:
            if path not in self.objects:
                self._remove(path, before)
            else:
                asyncio.get_running_loop().call_later(STOP_SECONDS, self._stop, path)
        return answer

    def end(self, path: str, exit_code: int) -> None:
        """Let the container of a pod end."""
        ended = {"exitCode": exit_code, "finishedAt": self._time(), "reason": "Completed" if not exit_code else "Error"}
        self._update(path, "Failed" if exit_code else "Succeeded", {"terminated": ended})

    def _report(self, kind: str, path: str, content: Json) -> None:
        asyncio.get_running_loop().call_later(WATCH_SECONDS, self._deliver, kind, path, content)

    def _remove(self, path: str, last: Json) -> None:
        self.version += 1
        meta = last["metadata"] | {"resourceVersion": str(self.version)}
        self._report("DELETED", path, last | {"metadata": meta})

    def _stop(self, path: str) -> None:
        if path in self.objects:
            self._remove(path, self.objects.pop(path))

    async def _run(self, path: str, number: int) -> None:
        """Play the scheduler and the kubelet of a pod until its container runs."""
        await asyncio.sleep(BIND_SECONDS + STEP_SECONDS * number)
        scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": self._time()}
        self._patch_pod(path, {"spec": {"nodeName": f"node-{number}"}, "status": {"conditions": [scheduled]}})
        await asyncio.sleep(CONTAINER_SECONDS)
        self._update(path, "Pending", {"waiting": {"reason": "ContainerCreating"}})
        await asyncio.sleep(START_SECONDS)
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": self._time()}
        self._update(path, "Running", {"running": {"startedAt": self._time()}}, conditions=[scheduled, ready])

    def _update(self, path: str, phase: str, state: Json, **status: Any) -> None:
        container = {"name": "tensorflow", "state": state}
        self._patch_pod(path, {"status": {"phase": phase, "containerStatuses": [container]} | status})

    def _patch_pod(self, path: str, patch: Json) -> None:
        pod = self.objects.get(path)
        if pod is not None and "deletionTimestamp" not in pod["metadata"]:
            self.put(path, merge_patch(pod, patch))

    def _time(self) -> str:
        return rfc3339(NOW + timedelta(seconds=asyncio.get_running_loop().time()))


class DirectClient(ApiClient):
    """A client without HTTP of an API server in memory."""

    def __init__(self, api: FakeApi) -> None:
        super().__init__("http://simulated", None, dict)
        self._api = api

    async def request(
        self,
        method: str,
        path: str,
        *,
        resource: str,  # noqa: ARG002  for a metric
        body: Json | list[Json] | None = None,
        content_type: str = JSON,
        query: Mapping[str, str] | None = None,
        accept: str = JSON,  # noqa: ARG002  the API in memory has no partial objects
    ) -> Json:
        """Send one request and return the JSON of the response.

        Raises:
            ApiError: the server rejects it.
        """
        code, content = await self._api.respond(method, path, query or {}, body or {}, content_type)
        if code < _ERROR:
            result: Json = content
            return result
        raise error_for(code, content["reason"], content["message"])
