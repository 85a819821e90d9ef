"""Writes manifests as YAML documents that kubectl reads as the same values, or as a `List` in JSON."""

import json
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TextIO

import yaml

from tfdist.cli.yaml_loader import reads_as_text
from tfdist.printable import escaped_json, is_printable, printable

_FIRST: Final = ("apiVersion", "kind", "metadata", "spec")
_FIRST_OF_METADATA: Final = ("name", "namespace", "labels", "annotations")
_WIDE: Final = 1 << 30
_COMMENT_WIDTH: Final = 100


def write_yaml(stream: TextIO, manifests: Iterable[tuple[Mapping[str, Any] | None, Sequence[str]]]) -> None:
    """Write each manifest below its comments; None writes the comments only."""
    for number, (manifest, comments) in enumerate(manifests):
        stream.write("---\n" if number else "")
        stream.writelines(f"# {printable(line)}\n" for comment in comments for line in _wrap(comment))
        if manifest is not None:
            stream.write(_yaml(ordered(manifest)))


def _yaml(manifest: Mapping[str, Any]) -> str:
    """Return a document without control characters: if a text has some, all characters but ASCII are escaped."""
    options: dict[str, Any] = {"Dumper": _Dumper, "sort_keys": False, "width": _WIDE}
    text: str = yaml.dump(manifest, allow_unicode=True, **options)
    return text if is_printable(text) else yaml.dump(manifest, allow_unicode=False, **options)


def _wrap(comment: str) -> Iterator[str]:
    for line in comment.splitlines():
        indent = "  " if line.startswith("- ") else ""
        yield from textwrap.wrap(
            line, _COMMENT_WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
        )


def write_json(stream: TextIO, manifests: Iterable[Mapping[str, Any]]) -> None:
    """Write the manifests as one object of kind `List`."""
    items = [ordered(manifest) for manifest in manifests]
    write_json_document(stream, {"apiVersion": "v1", "kind": "List", "items": items})


def write_json_document(stream: TextIO, value: Any) -> None:
    """Write a value as JSON with its text as it is, but control characters escaped: a terminal would obey them."""
    stream.write(escaped_json(json.dumps(value, indent=2, ensure_ascii=False)) + "\n")


def ordered(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the manifest with its fields in the conventional order."""
    result = _order(manifest, _FIRST)
    if isinstance(result.get("metadata"), dict):
        result["metadata"] = _order(result["metadata"], _FIRST_OF_METADATA)
    return result


def _order(fields: Mapping[str, Any], first: Sequence[str]) -> dict[str, Any]:
    return {name: fields[name] for name in first if name in fields} | dict(fields)


class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    """Writes text so that PyYAML and kubectl both read it as text, and multi-line text as block scalars."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002  the signature of PyYAML
        """Write repeated parts out instead of using aliases."""
        return True


def _text(dumper: Any, value: str) -> Any:
    return dumper.represent_scalar("tag:yaml.org,2002:str", str(value), style=_style(value))


def _list(dumper: Any, values: list[Any]) -> Any:
    """Write a list of numbers, such as 127 exit codes, in one line."""
    numbers = bool(values) and all(isinstance(v, int) and not isinstance(v, bool) for v in values)
    return dumper.represent_sequence("tag:yaml.org,2002:seq", values, flow_style=numbers or not values)


def _style(value: str) -> str | None:
    first, *others = value.split("\n")
    # a block scalar cannot begin with a space or preserve unprintable characters and trailing spaces
    if others and first.strip(" ") and not first.startswith(" ") and all(map(_is_preserved, (first, *others))):
        return "|"
    return None if reads_as_text(value) else "'"


def _is_preserved(line: str) -> bool:
    return line.isprintable() and not line.endswith(" ")


_Dumper.add_multi_representer(str, _text)
_Dumper.add_representer(str, _text)
_Dumper.add_representer(list, _list)
