"""The kinds of objects that commands work on: jobs and sweeps."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tfdist.api.resource import API_VERSION, GROUP, KIND
from tfdist.api.sweep_resource import SWEEP_API_VERSION, SWEEP_KIND
from tfdist.cli.errors import CommandError

if TYPE_CHECKING:
    from tfdist.client.client import Client
    from tfdist.client.resources import Resources


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of object."""

    noun: str
    """Its name in messages and on the command line."""
    api_version: str
    kind: str
    group: tuple[str, ...] = ()
    """Words before the verb in a command about an object of this kind: `tfdist sweep get`."""

    @property
    def resource(self) -> str:
        """Name of the resource, as kubectl prints it: `tfdistjob`."""
        return self.kind.lower()

    @property
    def full_resource(self) -> str:
        """Name of the resource with its API group: `tfdistjob.tfdist.dev`."""
        return f"{self.resource}.{GROUP}"

    @property
    def phases(self) -> tuple[str, ...]:
        """The phases that an object of this kind can have."""
        if self is JOB:
            from tfdist.api.status import JobPhase  # noqa: PLC0415  most commands do not need the models

            return tuple(JobPhase)
        from tfdist.api.sweep_status import SweepPhase  # noqa: PLC0415  as above

        return tuple(SweepPhase)

    def of(self, client: "Client") -> "Resources[Any, Any]":
        """Return what lists, reads and changes objects of this kind in the namespace of a client."""
        return client.jobs if self is JOB else client.sweeps


JOB: Final = Kind("job", API_VERSION, KIND)
SWEEP: Final = Kind("sweep", SWEEP_API_VERSION, SWEEP_KIND, ("sweep",))
_WORDS: Final = {
    word: kind
    for kind in (JOB, SWEEP)
    for word in (kind.noun, f"{kind.noun}s", kind.resource, f"{kind.resource}s", kind.full_resource)
}


def kind_of(word: str) -> Kind:
    """Return the kind that a word names: `job`, `sweeps`, `tfdistjob`, `tfdistsweep.tfdist.dev`.

    Raises:
        CommandError: it names neither.
    """
    if word.lower() not in _WORDS:
        raise CommandError(f"{word}: unknown kind; write jobs or sweeps")
    return _WORDS[word.lower()]


class Reference(NamedTuple):
    """An object on the command line."""

    kind: Kind
    name: str

    @classmethod
    def parse(cls, text: str, kind: Kind = JOB) -> "Reference":
        """Return the object that `KIND/NAME`, which `-o name` prints, or `NAME` of a default kind refers to.

        Raises:
            CommandError: the kind is neither a job nor a sweep.
        """
        word, slash, name = text.partition("/")
        return cls(kind_of(word), name) if slash else cls(kind, text)
