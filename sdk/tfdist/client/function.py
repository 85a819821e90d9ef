"""`@tfdist.job(...)`: a function that runs here, as processes of this machine, or as the job of a cluster.

The module of the function is imported in the job too, in images that may lack the packages of the client: nothing of
them is imported here before a job is submitted.
"""

import functools
import inspect
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, ParamSpec, TypeVar, overload

from tfdist.api.sweep_resource import MAX_SWEEP_NAME, MAX_TRIALS
from tfdist.client.errors import FunctionError
from tfdist.client.function_script import ARGUMENTS_ENV, IMPORTING_ENV, check_json, script_of
from tfdist.client.function_source import checked, source_of
from tfdist.contract import FUNCTION_SCRIPT

if TYPE_CHECKING:  # see the docstring of the module
    from tfdist.client.client import Client
    from tfdist.client.code_archive import CodeArchive
    from tfdist.client.job_handle import JobHandle
    from tfdist.client.requirements import Lock
    from tfdist.client.sweep_handle import SweepHandle

P = ParamSpec("P")
R = TypeVar("R")
Json = dict[str, Any]

ARGUMENTS: Final = "tfdist.dev/arguments"
"""Annotation with the arguments of the function, as JSON, if they are short.

It hides nothing: the code, a ConfigMap with the same readers, has them too. Secrets belong in variables from a Secret.
"""

_CLIENT: Final = "client"
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
    code_store: str | None = None
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
    code_store: str | None = None,
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
            although they may contain credentials; `code_store`, the object store for the code, as in `Client.submit`;
            `name` of the job, by default the function's name and five
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
        manifest, archive = self._prepare(args, kwargs, here=client is not None and client.runs_here)
        return _client(client).submit(manifest, code=archive)

    def local(self, *args: Any, **kwargs: Any) -> "JobHandle":
        """Run the same job as processes of this machine; the call returns at once.

        Raises:
            ClientError: the job cannot be created, see `submit`.
        """
        manifest, archive = self._prepare(args, kwargs, here=True)
        policy = {"backoffLimit": 0} | manifest["spec"].get("runPolicy", {})  # the user is there to correct it
        local_manifest = manifest | {"spec": manifest["spec"] | {"runPolicy": policy}}
        return _client(None, local=True).submit(local_manifest, code=archive)

    def map(
        self,
        arguments: Iterable[Mapping[str, Any]],
        *,
        parallelism: int | None = None,
        name: str | None = None,
        client: "Client | None" = None,
    ) -> "SweepHandle":
        """Create a sweep whose trials call the function with one of several sets of arguments each.

        The cluster runs all of them, also when this process has ended: `Client().sweeps.attach(NAME)` finds the sweep
        again. An error in one does not stop the others.

        Args:
            arguments: keyword arguments of the function, one set for each trial, at most 500.
            parallelism: largest number of jobs that run at the same time; default: all.
            name: name of the sweep, with which the names of its jobs begin; default: the option `name`, or the
                function's name and five characters.
            client: the client of the cluster; default: `tfdist.Client()`.

        Raises:
            FunctionError: an argument is not JSON, the number of sets is not 1 to 500, or the source of the function
                cannot be sent.
            TypeError: the function does not take these arguments.
            NotPossible: the client is of this machine, which runs no sweeps.
            Invalid: the API server rejects the sweep, for example because the trials would share a directory.
            ClientError: the sweep cannot be created.
        """
        from tfdist.client.new_job import name_prefix  # noqa: PLC0415  see the docstring of the module

        sets = [self._arguments((), each) for each in arguments]
        if not 1 <= len(sets) <= MAX_TRIALS:
            raise FunctionError(f"{self._name}.map: {len(sets)} sets of arguments; a sweep has 1 to {MAX_TRIALS}")
        manifest, archive = self._job(None)
        own_name = name or self.options.name
        metadata = {"name": own_name} if own_name else {"generateName": name_prefix(self._name, MAX_SWEEP_NAME)}
        spec = {
            "parameters": [{"name": "arguments", "env": ARGUMENTS_ENV}],
            "search": {"method": "List", "list": [{"arguments": each} for each in sets]},
            "parallelism": len(sets) if parallelism is None else parallelism,
            "maxFailedTrials": len(sets),
            "cleanTrials": "None",  # their statuses have the results
            "template": {"spec": manifest["spec"]},
        }
        return _client(client).sweeps.submit({"metadata": metadata, "spec": spec}, code=archive)

    def prepare(self, *args: Any, **kwargs: Any) -> "tuple[Json, CodeArchive]":
        """Return the manifest of the job for these arguments, and its code.

        Raises:
            FunctionError: an argument is not JSON, or the source of the function cannot be sent.
            TypeError: the function does not take these arguments.
            RequirementsError: the packages cannot be locked.
        """
        return self._prepare(args, kwargs)

    def _prepare(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any], *, here: bool = False
    ) -> "tuple[Json, CodeArchive]":
        """Return the manifest and the code; `here` with packages for the Python of this machine."""
        values = self._arguments(args, kwargs)
        manifest, archive = self._job(values, here=here)
        text = json.dumps(values)
        if len(text) <= _SHOWN_CHARACTERS:
            manifest["metadata"]["annotations"] = {ARGUMENTS: text}
        return manifest, archive

    def _job(self, arguments: Json | None, *, here: bool = False) -> "tuple[Json, CodeArchive]":
        """Return the manifest and the code; without arguments the code takes them from the trial of a sweep."""
        manifest = self._manifest()
        lock = self._lock(manifest, here=here)
        archive = self._archive(arguments, lock)
        if lock is not None:
            lock.check(archive)
        return manifest, archive

    def _lock(self, manifest: Json, *, here: bool) -> "Lock | None":
        """Return the locked packages, and name their file in the manifest."""
        options = self.options
        if isinstance(options.packages, str):
            raise FunctionError(f"{self._name}: packages is a list, such as packages=[{options.packages!r}]")
        if options.packages and options.requirements is not None:
            raise FunctionError(f"{self._name}: packages and requirements are both given; put all into one of them")
        if IMPORTING_ENV in os.environ or (not options.packages and options.requirements is None):
            return None
        from tfdist.client.requirements import lock_for  # noqa: PLC0415  see the docstring of the module

        folder = None if options.code is None else Path(options.code)
        return lock_for(manifest, options.requirements or list(options.packages), folder, here=here)

    def _archive(self, arguments: Json | None, lock: "Lock | None") -> "CodeArchive":
        """Return the code with a script that calls the function."""
        from tfdist.client.code_archive import pack_with  # noqa: PLC0415  see the docstring of the module
        from tfdist.client.code_store import store_of  # noqa: PLC0415  as above

        if IMPORTING_ENV in os.environ:
            raise FunctionError(
                f"{self._name} submits a job when its module is imported, as the job itself does: submit it below "
                'if __name__ == "__main__":'
            )
        folder = None if self.options.code is None else Path(self.options.code)
        source = source_of(self._checked, folder)
        files = source.files | {FUNCTION_SCRIPT: script_of(source, arguments)} | (lock.files if lock else {})
        return pack_with(files, folder, self.options.include, store_of(self.options.code_store))

    @property
    def _name(self) -> str:
        return self._checked.__name__

    def _check_parameters(self) -> None:
        for parameter in self._signature.parameters.values():
            if parameter.kind in {parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL}:
                raise FunctionError(f"{self._name}: the parameter {parameter.name} has no name in a call; give it one")
            if parameter.name == _CLIENT:
                raise FunctionError(f"{self._name}: submit has a parameter {_CLIENT} too; rename it")

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

    def _manifest(self) -> Json:
        from tfdist.client.new_job import new_job  # noqa: PLC0415  see the docstring of the module

        options, fields = self.options, self.options.spec or {}
        conflicts = [name for name in _OF_THE_FUNCTION if name in (fields.get("training") or {})]
        if conflicts:
            raise FunctionError(
                f"{self._name}: the function has its own spec.training.{conflicts[0]}; remove it from spec"
            )
        runs: Json = {"training": {"script": FUNCTION_SCRIPT}}
        if options.checkpoint is not None:
            directory = options.checkpoint
            runs["checkpoint"] = {"directory": directory} if isinstance(directory, str) else dict(directory)
        return new_job(
            runs,
            options.name,
            self._name,
            workers=options.workers,
            gpus=options.gpus,
            image=options.image,
            env=options.env,
            fields=fields,
        )


def _client(client: "Client | None", *, local: bool = False) -> "Client":
    if client is not None:
        return client
    from tfdist.client.client import Client  # noqa: PLC0415  see the docstring of the module

    return Client(local=local)
