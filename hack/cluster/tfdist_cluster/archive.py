"""Container images written as an archive that `docker load` and containerd read, with no engine needed.

Equal input gives a byte-equal archive: entries are sorted, and owners, times and compression are fixed. A layer that
several images share is written once.
"""

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

CREATED = "2026-01-01T00:00:00Z"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True)
class Copy:
    """A file of this machine, executable in the image."""

    source: Path


@dataclass(frozen=True, slots=True)
class Text:
    """A small file with this text."""

    text: str


@dataclass(frozen=True, slots=True)
class Link:
    """A symbolic link."""

    target: str


@dataclass(frozen=True, slots=True)
class Folder:
    """An empty folder."""

    mode: int = 0o755


Entry = Copy | Text | Link | Folder
Layer = Mapping[str, Entry]  # path in the image, without a leading slash


@dataclass(frozen=True, slots=True)
class Image:
    """One image, under one or more names."""

    tags: tuple[str, ...]
    layers: tuple[Layer, ...]
    entrypoint: tuple[str, ...] | None = None
    command: tuple[str, ...] | None = None
    environment: Mapping[str, str] = field(default_factory=dict)


def write(images: Iterable[Image], output: Path) -> None:
    """Write all images into one archive."""
    manifest = []
    with tarfile.open(output, "w") as archive:
        written: dict[int, tuple[str, str]] = {}  # a layer's identity to its name and digest
        for image in images:
            layers = []
            for layer in image.layers:
                if id(layer) not in written:
                    written[id(layer)] = _add_layer(archive, layer)
                layers.append(written[id(layer)])
            configuration = json.dumps(_configuration(image, [digest for _, digest in layers]), sort_keys=True).encode()
            name = hashlib.sha256(configuration).hexdigest() + ".json"
            _add(archive, name, configuration)
            manifest.append({"Config": name, "RepoTags": list(image.tags), "Layers": [name for name, _ in layers]})
        _add(archive, "manifest.json", json.dumps(manifest).encode())


def _configuration(image: Image, digests: list[str]) -> dict[str, Any]:
    environment = {"PATH": PATH, **image.environment}
    return {
        "architecture": "amd64",
        "os": "linux",
        "created": CREATED,
        "config": {
            "Env": [f"{name}={value}" for name, value in environment.items()],
            "Entrypoint": list(image.entrypoint) if image.entrypoint else None,
            "Cmd": list(image.command) if image.command else None,
        },
        "rootfs": {"type": "layers", "diff_ids": digests},
        "history": [{"created": CREATED} for _ in digests],
    }


def _add_layer(archive: tarfile.TarFile, layer: Layer) -> tuple[str, str]:
    plain = layer_tar(layer)
    digest = hashlib.sha256(plain).hexdigest()
    name = f"{digest}.tar.gz"
    _add(archive, name, gzip.compress(plain, compresslevel=1, mtime=0))
    return name, f"sha256:{digest}"


def layer_tar(layer: Layer) -> bytes:
    """Return the uncompressed tar of a layer; folders that lead to an entry come before it."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path, entry in sorted(_with_parents(layer).items()):
            _add_entry(tar, path, entry)
    return buffer.getvalue()


def _with_parents(layer: Layer) -> dict[str, Entry]:
    parents = {str(parent): Folder() for path in layer for parent in PurePosixPath(path).parents if str(parent) != "."}
    return {**parents, **layer}


def _add_entry(tar: tarfile.TarFile, path: str, entry: Entry) -> None:
    info = tarfile.TarInfo(path)
    match entry:
        case Folder(mode):
            info.type, info.mode = tarfile.DIRTYPE, mode
            tar.addfile(info)
        case Link(target):
            info.type, info.linkname = tarfile.SYMTYPE, target
            tar.addfile(info)
        case Text(text):
            data = text.encode()
            info.size, info.mode = len(data), 0o644
            tar.addfile(info, io.BytesIO(data))
        case Copy(source):
            info.size, info.mode = source.stat().st_size, 0o755
            with source.open("rb") as opened:
                tar.addfile(info, opened)


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(data), 0o644
    archive.addfile(info, io.BytesIO(data))
