"""CRDs of a scheduler in the API server, as long as a block runs; nothing of theirs is left for later tests."""

import pathlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

import yaml

from support.api import Api, Json
from support.polling import wait_for

CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def documents(path: pathlib.Path) -> list[Json]:
    """Return the objects of a YAML file."""
    contents: list[Any] = list(yaml.load_all(path.read_text(), yaml.CSafeLoader))  # safe too, and in C: CRDs are large
    return [document for document in contents if document]


@contextmanager
def installed(api: Api, crds: Sequence[Json]) -> Iterator[None]:
    """Install CRDs; at the end, remove them with all of their objects."""
    for crd in crds:
        api.apply({key: value for key, value in crd.items() if key != "status"}, CRDS)
    for crd in crds:
        wait_for(f"{_name(crd)} to be served", partial(_is_served, api, crd))
    try:
        yield
    finally:
        for crd in crds:
            remove_objects(api, crd)
        for crd in crds:
            api.send("DELETE", f"{CRDS}/{_name(crd)}")
        for crd in crds:
            wait_for(f"the end of {_name(crd)}", partial(_is_gone, api, crd))


def remove_objects(api: Api, crd: Json) -> None:
    """Delete the objects of a CRD, with finalizers that nothing removes any more."""
    group, plural = crd["spec"]["group"], crd["spec"]["names"]["plural"]
    version = next(each["name"] for each in crd["spec"]["versions"] if each["storage"])
    prefix = f"/apis/{group}/{version}"
    listing = f"{prefix}/{plural}"
    # 429 is the answer as long as the API server prepares to serve a kind that was not listed before.
    wait_for(f"the list of {plural}", lambda: api.send("GET", listing).ok)
    for stored in api.do("GET", listing)["items"]:
        meta = stored["metadata"]
        scope = f"/namespaces/{meta['namespace']}" if "namespace" in meta else ""
        path = f"{prefix}{scope}/{plural}/{meta['name']}"
        api.send("DELETE", path)  # first: no finalizer can be added to an object that is being deleted
        api.send("PATCH", path, {"metadata": {"finalizers": None}}, "merge-patch")


def _name(crd: Json) -> str:
    return str(crd["metadata"]["name"])


def _is_served(api: Api, crd: Json) -> bool:
    conditions = api.do("GET", f"{CRDS}/{_name(crd)}").get("status", {}).get("conditions") or ()
    return {"type": "Established", "status": "True"} in [{k: c[k] for k in ("type", "status")} for c in conditions]


def _is_gone(api: Api, crd: Json) -> bool:
    return api.send("GET", f"{CRDS}/{_name(crd)}").status_code == 404
