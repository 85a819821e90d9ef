"""Every change of some kinds of objects in the order in which the API server stored them.

All kinds are in one etcd, so resource versions order the changes of one kind among those of another.
"""

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from support.api import Api, Json

_SECONDS: Final = "2"
"""A watch ends so often, and is resumed from its last version: the recorder ends with it."""


@dataclass(frozen=True, order=True)
class Change:
    """A change that a watch reported. `path` is the collection of its kind."""

    version: int
    path: str
    deleted: bool
    content: str

    @property
    def object(self) -> Json:
        """The object as it was stored."""
        content: Json = json.loads(self.content)
        return content

    @property
    def namespace(self) -> str:
        """The namespace of the object."""
        return str(self.object["metadata"]["namespace"])


@contextmanager
def recorded(api: Api, paths: Sequence[str]) -> Iterator[list[Change]]:
    """Yield the changes of the kinds of some collections, to which those are added that happen during the block.

    They are complete and in order after the block.
    """
    changes: list[Change] = []
    ends = threading.Event()
    starts = [(path, api.do("GET", path)["metadata"]["resourceVersion"]) for path in paths]
    threads = [threading.Thread(target=_record, args=(api, *start, changes, ends), daemon=True) for start in starts]
    for thread in threads:
        thread.start()
    try:
        yield changes
    finally:
        ends.set()
        for thread in threads:
            thread.join()
        changes.sort()


def _record(api: Api, path: str, version: str, changes: list[Change], ends: threading.Event) -> None:
    own = Api(api.kubeconfig)  # a connection is of one thread
    last = False
    while not last:
        last = ends.is_set()  # then one more watch, which has all that was stored before
        query: Json = {"watch": "1", "resourceVersion": version, "timeoutSeconds": _SECONDS}
        for line in own.send("GET", path, **query).text.splitlines():
            event = json.loads(line)
            version = event["object"]["metadata"]["resourceVersion"]
            deleted = event["type"] == "DELETED"
            changes.append(Change(int(version), path, deleted, json.dumps(event["object"])))
