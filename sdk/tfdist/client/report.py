"""The files of a bug report about a job; they name unreadable objects, which do not fail the report."""

import json
import platform
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from importlib.metadata import version
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from tfdist import __version__
from tfdist.client import events
from tfdist.client.api_server import Json
from tfdist.client.client import Client
from tfdist.client.doctor import diagnose
from tfdist.client.errors import ClientError
from tfdist.client.job import Job
from tfdist.client.masking import Masking
from tfdist.client.replica_pods import pods_of

CONTENTS: Final = "contents.txt"

_LOG_LINES: Final = 2000
_LOG_BYTES: Final = 1 << 20
_MAX_BYTES: Final = 32 << 20
"""Of all files, before they are packed."""


class File(NamedTuple):
    """A file of a report."""

    name: str
    content: bytes


class _Log(NamedTuple):
    pod: str
    container: str
    previous: bool
    has_failed: bool

    @property
    def file(self) -> str:
        """Its file in the report."""
        return f"logs/{self.pod}.{self.container}{'.previous' if self.previous else ''}.log"


class Report:
    """Collects the files of a report about a job."""

    def __init__(self, client: Client, job: Job) -> None:
        self._client, self._job = client, job
        self._masking = Masking()
        self.unread: list[str] = []
        """What could not be read, and why."""
        self._left = _MAX_BYTES

    @property
    def masked(self) -> list[str]:
        """Where values were masked."""
        return self._masking.masked

    def files(self) -> Iterator[File]:
        """Yield the files; the last one lists the others, the masked values, and the unreadable objects."""
        names: list[tuple[str, int]] = []
        for file in self._files():
            if len(file.content) > self._left:
                self.unread.append(f"{file.name}: the report would be larger than {_MAX_BYTES >> 20} MiB")
                continue
            self._left -= len(file.content)
            names.append((file.name, len(file.content)))
            yield file
        yield File(CONTENTS, self._contents(names).encode())

    def _files(self) -> Iterator[File]:
        # The manifest and the pods come first: their masked values are masked in all other files too.
        job = self._masking.json(self._job.manifest, "job")
        pods = self._read("pods.json", lambda: pods_of(self._client.api, self._job.namespace, self._job.name)) or []
        masked_pods = [self._masking.json(pod, f"pods.{pod['metadata']['name']}") for pod in pods]
        yield _json("job.json", self._masking.json(job, "job"))
        if pods or not self.unread:
            yield _json("pods.json", masked_pods)
        yield from self._listed("events.json", lambda: [_event(event) for event in self._events()])
        yield from self._listed("doctor.json", lambda: [asdict(check) for check in diagnose(self._client, self._job)])
        yield from self._listed("versions.json", self._versions)
        for log in _logs(pods):
            yield from self._log(log)

    def _events(self) -> Iterable[events.JobEvent]:
        return events.read(self._client.api, self._job)

    def _listed(self, name: str, read: Callable[[], Any]) -> Iterator[File]:
        items = self._read(name, read)
        if items is not None:
            yield _json(name, self._masking.json(items, name))

    def _read(self, name: str, read: Callable[[], Any]) -> Any:
        try:
            return read()
        except ClientError as error:
            self.unread.append(f"{name}: {error}")
            return None

    def _versions(self) -> Json:
        return {
            "tfdist": __version__,
            "python": platform.python_version(),
            "platform": platform.platform(),
            "kubernetes (package)": version("kubernetes"),
            "cluster": self._client.api.request("GET", "/version"),
        }

    def _log(self, log: _Log) -> Iterator[File]:
        if self._left < _LOG_BYTES:
            self.unread.append(f"{log.file}: the report would be larger than {_MAX_BYTES >> 20} MiB")
            return
        path = f"/api/v1/namespaces/{self._job.namespace}/pods/{quote(log.pod, safe='')}/log"
        query = {"container": log.container, "tailLines": _LOG_LINES, "limitBytes": _LOG_BYTES, "timestamps": True}

        def read() -> bytes:
            with self._client.api.stream(path, query | {"previous": log.previous or None}) as parts:
                return b"".join(parts)[-_LOG_BYTES:]

        content = self._read(log.file, read)
        if content:
            yield File(log.file, self._masking.text(content.decode(errors="replace"), log.file).encode())

    def _contents(self, names: list[tuple[str, int]]) -> str:
        lines = [f"Report of tfdist {__version__} about job {self._job.name} in namespace {self._job.namespace}.", ""]
        for title, items in (
            ("Files, with their bytes:", [f"{name} {size}" for name, size in names]),
            ("Masked, as their names hint at a secret; check the logs for others:", self.masked),
            ("Not read:", self.unread),
        ):
            lines += [title, *(f"  {item}" for item in items or ["none"]), ""]
        return "\n".join(lines)


def _json(name: str, value: Any) -> File:
    return File(name, (json.dumps(value, indent=2) + "\n").encode())


def _event(event: events.JobEvent) -> Json:
    return asdict(event) | {"first": event.first.isoformat(), "last": event.last.isoformat()}


def _logs(pods: list[Json]) -> list[_Log]:
    """Return the logs of all containers that have started, those that failed first."""
    logs = []
    for pod in pods:
        status = pod["status"]
        for container_status in (
            *(status.get("initContainerStatuses") or ()),
            *(status.get("containerStatuses") or ()),
        ):
            state, name = container_status.get("state") or {}, pod["metadata"]["name"]
            has_failed = bool((state.get("terminated") or {}).get("exitCode"))
            if "waiting" not in state:
                logs.append(_Log(name, container_status["name"], previous=False, has_failed=has_failed))
            if container_status.get("restartCount"):
                logs.append(_Log(name, container_status["name"], previous=True, has_failed=True))
    return sorted(logs, key=lambda log: not log.has_failed)
