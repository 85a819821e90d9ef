"""`@tfdist.job(...)`: a function that runs here, as processes of this machine, or as the job of a cluster.

The module of the function is imported in the job too, in images that may lack the packages of the client: nothing of
them is imported here before a job is submitted.
"""

import functools
import inspect
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, ParamSpec, TypeVar, overload

from tfdist.api.resource import API_VERSION, KIND
from tfdist.client.errors import FunctionError
from tfdist.client.function_script import IMPORTING_ENV, SCRIPT, check_json, script_of
from tfdist.client.function_source import checked, source_of
from tfdist.package_installation import LOCK
from tfdist.podspec.resources import NVIDIA_GPU

if TYPE_CHECKING:  # see the docstring of the module
    from tfdist.client.batch import BatchHandle
    from tfdist.client.client import Client
    from tfdist.client.code_archive import CodeArchive
    from tfdist.client.job_handle import JobHandle
    from tfdist.client.requirements import Lock

P = ParamSpec("P")
R = TypeVar("R")
Json = dict[str, Any]

ARGUMENTS: Final = "tfdist.dev/arguments"
"""Annotation with the arguments of the function, as JSON, if they are short.

It hides nothing: the code, a ConfigMap with the same readers, has them too. Secrets belong in variables from a Secret.
"""

_CLIENT: Final = "client"
_NAME_CHARACTERS: Final = 40
_SHOWN_CHARACTERS: Final = 4096
_OF_THE_FUNCTION: Final = ("script", "args", "source", "program")


@dataclass(frozen=True, slots=True)
class JobOptions:
    """Options of `tfdist.job`."""

    workers: int = 1
    gpus: int | None = None
    image: str | None = None
    code: str | os.PathLike[str] | None = None
    include: Sequence[str] = ()
    name: str | None = None
    checkpoint: str | Mapping[str, Any] | None = None
    env: Mapping[str, str] | None = None
    spec: Mapping[str, Any] | None = None
    packages: Sequence[str] = ()
    requirements: str | os.PathLike[str] | None = None


@overload
def job(function: Callable[P, R], /) -> "JobFunction[P, R]": ...


@overload
def job(
    *,
    workers: int = 1,
    gpus: int | None = None,
    image: str | None = None,
    code: str | os.PathLike[str] | None = None,
    include: Sequence[str] = (),
    name: str | None = None,
    checkpoint: str | Mapping[str, Any] | None = None,
    env: Mapping[str, str] | None = None,
    spec: Mapping[str, Any] | None = None,
    packages: Sequence[str] = (),
    requirements: str | os.PathLike[str] | None = None,
) -> "Callable[[Callable[P, R]], JobFunction[P, R]]": ...


def job(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Return a function that can become a job, or the decorator that makes one.

    >>> @tfdist.job(workers=4, gpus=1)
    ... def train(lr: float = 1e-3) -> None: ...
    >>> train.submit(lr=3e-4).wait()

    Args:
        function: a function that is defined in a file or a cell of a notebook.
        **options: the fields of `JobOptions`. `workers`, and `gpus` for each worker; `image` instead of the trainer's;
            `code`, a folder with other modules that the function imports, and `include`, patterns of its files to send
            although they may contain credentials; `name` of the job, by default the function's name and five
            characters; `checkpoint`, the directory or the whole part of the specification; `env`, variables;
            `spec`, further fields of the specification; `packages`, such as `["einops>=0.8"]`, or `requirements`, a
            file of pip, to install before the function is called.

    Raises:
        FunctionError: the function cannot be found in its module: a lambda, a method, one with other decorators.
    """
    made = JobOptions(**options)
    if function is not None:
        return JobFunction(function, made)
    return lambda decorated: JobFunction(decorated, made)


class JobFunction(Generic[P, R]):
    """A function: a call runs it in this process, `submit` as a job, `local` as processes of this machine."""

    def __init__(self, function: Callable[P, R], options: JobOptions) -> None:
        self.options = options
        self._function, self._checked = function, checked(function)
        self._signature = inspect.signature(function)
        self._check_parameters()
        functools.update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function in this process."""
        return self._function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<tfdist.job {self._name}{self._signature}>"

    def submit(self, *args: Any, client: "Client | None" = None, **kwargs: Any) -> "JobHandle":
        """Create a job that calls the function with these arguments, which must be JSON and no secrets.

        The code and an annotation of the job contain them.

        Args:
            *args: arguments of the function.
            client: the client of the cluster; default: `tfdist.Client()`.
            **kwargs: keyword arguments of the function.

        Raises:
            FunctionError: an argument is not JSON, or the source of the function cannot be sent.
            TypeError: the function does not take these arguments.
            ClientError: the job cannot be created, see `Client.submit`.
        """
        manifest, archive = self.prepare(*args, **kwargs)
        return _client(client).submit(manifest, code=archive)

    def local(self, *args: Any, **kwargs: Any) -> "JobHandle":
        """Run the same job as processes of this machine; the call returns at once.

        Raises:
            ClientError: the job cannot be created, see `submit`.
        """
        from tfdist.client.local_client import LocalClient  # noqa: PLC0415  see the docstring of the module

        manifest, archive = self._prepare(self._lock(here=True), args, kwargs)
        policy = {"backoffLimit": 0} | manifest["spec"].get("runPolicy", {})  # the user is there to correct it
        return LocalClient().submit(manifest | {"spec": manifest["spec"] | {"runPolicy": policy}}, code=archive)

    def map(
        self,
        arguments: Iterable[Mapping[str, Any]],
        *,
        parallelism: int | None = None,
        name: str | None = None,
        client: "Client | None" = None,
    ) -> "BatchHandle":
        """Create a job for each of several sets of arguments, and return them as a batch.

        Args:
            arguments: keyword arguments of the function, one set for each job.
            parallelism: number of unfinished jobs at a time; the next ones are created while the batch is waited for.
                By default all are created now.
            name: name of the batch, with which the names of its jobs begin; default: the function's name and five
                characters.
            client: the client of the cluster; default: `tfdist.Client()`.

        Raises:
            FunctionError: an argument is not JSON, or the source of the function cannot be sent; no job is created.
            TypeError: the function does not take these arguments.
            ClientError: a job cannot be created.
        """
        from tfdist.client.batch import new_batch  # noqa: PLC0415  see the docstring of the module

        lock = self._lock()  # the same packages for all
        submissions = [self._prepare(lock, (), call_arguments) for call_arguments in arguments]
        return new_batch(_client(client).jobs, name or self.options.name, self._prefix, submissions, parallelism)

    def prepare(self, *args: Any, **kwargs: Any) -> "tuple[Json, CodeArchive]":
        """Return the manifest of the job for these arguments, and its code.

        Raises:
            FunctionError: an argument is not JSON, or the source of the function cannot be sent.
            TypeError: the function does not take these arguments.
            RequirementsError: the packages cannot be locked.
        """
        return self._prepare(self._lock(), args, kwargs)

    def _lock(self, *, here: bool = False) -> "Lock | None":
        """Return the locked packages; `here` for the Python of this machine."""
        options = self.options
        if isinstance(options.packages, str):
            raise FunctionError(f"{self._name}: packages is a list, such as packages=[{options.packages!r}]")
        if options.packages and options.requirements is not None:
            raise FunctionError(f"{self._name}: packages and requirements are both given; put all into one of them")
        if IMPORTING_ENV in os.environ or (not options.packages and options.requirements is None):
            return None
        from tfdist.client.requirements import lock_for  # noqa: PLC0415  see the docstring of the module

        folder = None if options.code is None else Path(options.code)
        return lock_for(self._manifest({}), options.requirements or list(options.packages), folder, here=here)

    def _prepare(
        self, lock: "Lock | None", args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> "tuple[Json, CodeArchive]":
        from tfdist.client.code_archive import pack_with  # noqa: PLC0415  see the docstring of the module

        if IMPORTING_ENV in os.environ:
            raise FunctionError(
                f"{self._name} submits a job when its module is imported, as the job itself does: submit it below "
                'if __name__ == "__main__":'
            )
        values = self._arguments(args, kwargs)
        folder = None if self.options.code is None else Path(self.options.code)
        source = source_of(self._checked, folder)
        files = source.files | {SCRIPT: script_of(source, values)} | (lock.files if lock else {})
        archive = pack_with(files, folder, self.options.include)
        manifest = self._manifest(values)
        if lock is not None:
            lock.check(archive)
            manifest["spec"]["training"]["requirements"] = LOCK
        return manifest, archive

    @property
    def _name(self) -> str:
        return self._checked.__name__

    @property
    def _prefix(self) -> str:
        words = "-".join(re.findall("[a-z0-9]+", self._name.lower()))[:_NAME_CHARACTERS].strip("-")
        return f"{words if words[:1].isalpha() else f'job-{words}'.strip('-')}-"

    def _check_parameters(self) -> None:
        for parameter in self._signature.parameters.values():
            if parameter.kind in {parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL}:
                raise FunctionError(f"{self._name}: the parameter {parameter.name} has no name in a call; give it one")
            if parameter.name == _CLIENT:
                raise FunctionError(f"{self._name}: the parameter {_CLIENT} is that of submit; rename it")

    def _arguments(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Json:
        """Return the arguments by name; a default is left to the function."""
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{self._name}{self._signature}: {error}") from None
        values = dict(bound.arguments)
        for parameter in self._signature.parameters.values():
            if parameter.kind is parameter.VAR_KEYWORD:
                values |= values.pop(parameter.name, {})
        for name, value in values.items():
            check_json(value, f"{self._name}: argument {name}")
        return values

    def _manifest(self, arguments: Json) -> Json:
        options, text = self.options, json.dumps(arguments)
        spec: Json = {"worker": {"replicas": options.workers}, "training": {"script": SCRIPT}}
        if options.image is not None:
            spec["image"] = options.image
        if options.gpus is not None:
            spec["resources"] = {"limits": {NVIDIA_GPU: options.gpus}}
        if options.checkpoint is not None:
            checkpoint = (
                {"directory": options.checkpoint} if isinstance(options.checkpoint, str) else options.checkpoint
            )
            spec["checkpoint"] = dict(checkpoint)
        if options.env:
            spec["env"] = [{"name": name, "value": value} for name, value in options.env.items()]
        metadata: Json = {"name": options.name} if options.name else {"generateName": self._prefix}
        if len(text) <= _SHOWN_CHARACTERS:
            metadata["annotations"] = {ARGUMENTS: text}
        overrides = options.spec or {}
        conflicts = [name for name in _OF_THE_FUNCTION if name in (overrides.get("training") or {})]
        if conflicts:
            raise FunctionError(
                f"{self._name}: spec.training.{conflicts[0]} is that of the function; remove it from spec"
            )
        return {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": _deep_merge(spec, overrides)}


def _deep_merge(base: Mapping[str, Any], change: Mapping[str, Any]) -> Json:
    """Return an object with the fields of another one, which precede, also in objects within."""
    result = dict(base)
    for key, value in change.items():
        are_mappings = isinstance(value, Mapping) and isinstance(result.get(key), Mapping)
        result[key] = _deep_merge(result[key], value) if are_mappings else value
    return result


def _client(client: "Client | None") -> "Client":
    if client is not None:
        return client
    from tfdist.client.client import Client  # noqa: PLC0415  see the docstring of the module

    return Client()
