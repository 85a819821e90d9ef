"""ConfigMaps of a file or folder: given ones, and those that `kubectl apply -k` would generate."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tfdist.cli.documents import STDIN, Document
from tfdist.cli.errors import CommandError


def config_maps(inputs: Sequence[Document], namespace: str) -> dict[str, Mapping[str, Any]]:
    """Return the ConfigMaps for a job of `namespace`, by name.

    Raises:
        CommandError: a file of a kustomization cannot be read.
    """
    result: dict[str, Mapping[str, Any]] = {}
    for document in inputs:
        kind, value = document.value.get("kind"), document.value
        if kind == "ConfigMap":
            metadata = value.get("metadata") or {}
            if metadata.get("namespace", namespace) == namespace:
                result[str(metadata.get("name"))] = value
        elif kind == "Kustomization":
            for generator in value.get("configMapGenerator") or ():
                result[str(generator.get("name"))] = {"data": _generated(generator, document.source)}
    return result


def config_map_manifests(inputs: Sequence[Document], namespace: str) -> list[dict[str, Any]]:
    """Return the manifests of the ConfigMaps for a job of `namespace`, with the content of each.

    Raises:
        CommandError: a file of a kustomization cannot be read.
    """
    return [_manifest(name, value) for name, value in config_maps(inputs, namespace).items()]


def _manifest(name: str, config_map: Mapping[str, Any]) -> dict[str, Any]:
    metadata = {"name": name} | dict(config_map.get("metadata") or {})
    return {key: item for key, item in config_map.items() if item is not None} | {"metadata": metadata}


def _generated(generator: Mapping[str, Any], source: str) -> dict[str, str]:
    """Return the data of a ConfigMap that a kustomization generates from files and literals."""
    folder = Path() if source == STDIN else Path(source).parent
    data = {}
    for entry in generator.get("files") or ():
        key, _, path = entry.rpartition("=")
        try:
            data[key or Path(path).name] = (folder / path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not UTF-8"
            raise CommandError(f"{source}: {folder / path} of configMapGenerator cannot be read: {reason}") from None
    return data | dict(literal.split("=", 1) for literal in generator.get("literals") or () if "=" in literal)
