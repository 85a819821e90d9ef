"""The files of a bug report about a job, with possible secrets masked; they name unreadable objects.

Masked are values of environment variables, fields and options whose name hints at a secret, also in text such as the
command of a shell or a log; credentials in URLs, tokens of a known form and private keys; the annotation of `kubectl
apply` (it repeats the whole manifest), and the names of image pull secrets. A masked value is masked in other text too,
such as a log. Names of other Secrets and of keys in them are kept: they are no secrets, and a wrong one is a frequent
cause of failures.
"""

import json
import platform
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
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
from tfdist.client.replica_pods import pods_of
from tfdist.url_credentials import MASK, without_credentials

CONTENTS: Final = "contents.txt"

_LOG_LINES: Final = 2000
_LOG_BYTES: Final = 1 << 20
_MAX_BYTES: Final = 32 << 20
"""Of all files, before they are packed."""

_HINT: Final = re.compile(
    r"secret|token|passw|passphrase|pwd|credential|private|auth|api_?-?key|access_?-?key|account_?-?key|"
    r"encryption_?-?key|signature|cookie|dsn|connection_?-?string|(^|[_-])(key|pat)$",
    re.IGNORECASE,
)
_KUBERNETES_FIELDS: Final = frozenset(
    {"secretName", "automountServiceAccountToken", "serviceAccountToken", "key", "authenticationRestrictions"}
)
"""Fields of Kubernetes whose name hints at a secret and whose value is none."""
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_HEADER: Final = re.compile(
    r"(\b(?:bearer|basic) +|"
    r"\bauthorization\\*[\"']?[ \t]{0,8}[:=][ \t]{0,8}\\*[\"']?(?:(?:token|digest|negotiate|apikey) +)?)"
    r"(?!(?:bearer|basic) )([A-Za-z0-9._~+/=-]{8,})",
    re.IGNORECASE,
)
_ASSIGNED: Final = re.compile(
    r"((?:secret|token|passw(?:or)?d|passphrase|pwd|credentials?|api_?-?key|access_?-?key(?:_?id)?|account_?-?key|"
    r"(?:secret|private|encryption|session|auth|master)_?-?key|client-key-data|(?<![A-Za-z0-9])_?auth|signature|cookie|dsn|connection_?-?string|_pat)"
    r"(?:\\*[\"']?[ \t]{0,8}[=:][ \t]{0,8})"
    r"(\\*[\"'])?)((?(2)[^\"'\\\n]+|[^\s\"'\\&,;)}\]]+))",
    re.IGNORECASE,
)
"""A name that ends like a secret's name, as in `export API_KEY=...`, `password: ...` and `"token": "..."`."""
_GIVEN: Final = re.compile(
    r"(-[\w.-]{0,60}?(?:secret|token|passw(?:or)?d|passphrase|pwd|api[_-]?key|access[_-]?key)[ \t]{1,8})"
    r"([^\s-]\S*)",
    re.IGNORECASE,
)
"""An option with its value as the next word."""
_LOGIN: Final = re.compile(
    r"((?:\b|(?<=\\n))login(?:\s|\\n){1,8}\S{1,256}?(?:\s|\\n){1,8}(?:\d{4}-\S{1,40}\s{1,8})?password(?:\s|\\n){1,8})(\S+)",
    re.IGNORECASE,
)
"""A login of `.netrc`, also in JSON, and in lines of a log with times."""
_KNOWN: Final = re.compile(
    r"\b(?:gh[pousr]_\w{10,}|github_pat_\w{10,}|glpat-[\w-]{10,}|hf_[A-Za-z0-9]{16,}|xox[abprs]-[\w-]{10,}|"
    r"hvs\.[\w-]{20,}|npm_[A-Za-z0-9]{20,}|pypi-[\w-]{16,}|dckr_pat_[\w-]{10,}|ya29\.[\w-]{20,}|"
    r"A[KS]IA[A-Z0-9]{12,}|AIza[\w-]{30,}|sk-[\w-]{20,}|eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]+)"
)
_PRIVATE_KEY: Final = re.compile(
    r"-----BEGIN ([A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?)-----"
    r"[A-Za-z0-9+/=\s\\:,.]*(?:-(?!----)[A-Za-z0-9+/=\s\\:,.]*)*(?:-----END \1-----)?"
)
"""A private key, also with times before its lines; one that a log cuts short, with the words behind it."""
_OPTION: Final = re.compile(r"(--?[A-Za-z][\w.-]*)(?:=(.*))?", re.DOTALL)
_SHORTEST: Final = 6
"""Of a value that is masked in other text too: shorter ones occur by chance."""


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


class Masking:
    """Masks values, and remembers where."""

    def __init__(self) -> None:
        self.masked: list[str] = []
        """Path of each masked value, and where text was masked."""
        self._values: set[str] = set()

    def json(self, value: Any, path: str) -> Any:
        """Return JSON with masked values."""
        match value:
            case Mapping():
                return self._object(value, path)
            case list() | tuple():
                return self._list(list(value), path)
            case str():
                return self._string(value, path)
            case _:
                return value

    def text(self, text: str, path: str) -> str:
        """Return text with masked URLs, headers, assignments, tokens and values that were masked elsewhere."""
        masked_text = patterns_masked(text)
        for value in sorted(self._values, key=len, reverse=True):
            masked_text = masked_text.replace(value, MASK)
        if masked_text != text:
            self._note(f"{path}: in its text")
        return masked_text

    def _object(self, value: Mapping[str, Any], path: str) -> Any:
        name = value.get("name")
        if isinstance(name, str) and isinstance(value.get("value"), str) and _HINT.search(name):
            return {**value, "value": self._mask(value["value"], f"{path}: {name}")}
        return {key: self._field(key, item, f"{path}.{key}") for key, item in value.items() if key != "managedFields"}

    def _field(self, key: str, value: Any, path: str) -> Any:
        if key == "imagePullSecrets" and isinstance(value, list):
            return [self._pull_secret(item, f"{path}[{index}]") for index, item in enumerate(value)]
        is_secret = key == _LAST_APPLIED or (key not in _KUBERNETES_FIELDS and _HINT.search(key))
        if is_secret and isinstance(value, str):
            return self._mask(value, path)
        return self.json(value, path)

    def _pull_secret(self, value: Any, path: str) -> Any:
        return {**value, "name": self._mask(str(value.get("name")), path)} if isinstance(value, Mapping) else value

    def _list(self, values: list[Any], path: str) -> list[Any]:
        """Return a list; in one of arguments the value of an option is that after `=`, or the next argument."""
        result, is_value = [], False
        for index, value in enumerate(values):
            item_path = f"{path}[{index}]"
            option = _OPTION.fullmatch(value) if isinstance(value, str) else None
            if is_value and isinstance(value, str) and not option:
                result.append(self._mask(value, item_path))
            elif option and option[2] and _HINT.search(option[1]):
                result.append(f"{option[1]}={self._mask(option[2], item_path)}")
            else:
                result.append(self.json(value, item_path))
            is_value = bool(option and option[2] is None and _HINT.search(option[1]))
        return result

    def _string(self, value: str, path: str) -> str:
        if value.startswith("{"):
            try:  # such as TFDIST_JOB, and specifications in the status
                return json.dumps(self.json(json.loads(value), path))
            except ValueError:
                pass
        # what a command sets may be printed by it
        self._values |= {match[3] for match in _ASSIGNED.finditer(value) if _is_distinct(match[3])}
        return self.text(value, path)

    def _mask(self, value: str, path: str) -> str:
        if not value or value.startswith("$("):
            return value  # a reference to another variable
        self._note(path)
        if _is_distinct(value) and not path.endswith(_LAST_APPLIED):
            self._values.add(value)
        return MASK

    def _note(self, path: str) -> None:
        if path not in self.masked:
            self.masked.append(path)


def patterns_masked(text: str) -> str:
    """Return a text without what looks like a secret by its form or its name."""
    text = without_credentials(_PRIVATE_KEY.sub(MASK, text))
    text = _HEADER.sub(rf"\1{MASK}", text)
    text = _ASSIGNED.sub(lambda match: match[0] if _is_reference(match[3]) else f"{match[1]}{MASK}", text)
    text = _GIVEN.sub(lambda match: match[0] if _is_reference(match[2]) else f"{match[1]}{MASK}", text)
    return _KNOWN.sub(MASK, _LOGIN.sub(rf"\1{MASK}", text))


def _is_reference(value: str) -> bool:
    """Return whether a value is masked already, or refers to a variable."""
    return value.startswith((MASK, "$"))


def _is_distinct(value: str) -> bool:
    """Return whether a value hardly occurs by chance in other text."""
    return len(value) >= _SHORTEST and not _is_reference(value)
