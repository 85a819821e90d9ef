"""Reading of manifests with the semantics of kubectl, with positions, and with errors for malformed input."""

import json
import os
import pathlib
import sys
from io import BytesIO, TextIOWrapper
from typing import Any

import pytest

from tfdist.cli import documents
from tfdist.cli.errors import DocumentError, Position

MEANINGS: dict[str, Any] = {
    "yes": True,
    "on": True,
    "No": False,
    "n": False,
    "~": None,
    "12": 12,
    "-7": -7,
    "0x1F": 31,
    "0o17": 15,
    "017": 15,
    "0b101": 5,
    "1_000": 1000,
    "1e3": 1000,
    "2.0": 2,
    ".5": 0.5,
    "22:30": "22:30",
    "2001-01-01": "2001-01-01",
    "2001-01-01T00:00:00Z": "2001-01-01T00:00:00Z",
    "1.2.3": "1.2.3",
    "4Gi": "4Gi",
    "yEs": "yEs",
    '"yes"': "yes",
    "'12'": "12",
    "!!str 12": "12",
    "!!int '12'": 12,
    "!!float 3": 3,
    "99999999999999999999": 99999999999999999999,
    "1e999": "1e999",
    "9" * 5000: "9" * 5000,
}

BAD: dict[str, tuple[bytes, str]] = {
    "a key twice": (b"a: 1\nb:\n  c: 1\n  d: 2\n  c: 3\n", "f:5:3: duplicate key 'c', first on line 3"),
    "a key twice, once as a number": (b"1: a\n'1': b\n", "f:2:1: duplicate key '1', first on line 1"),
    "a key twice in JSON": (b'{"a": 1,\n "a": 2}', "f:2:2: duplicate key 'a', first on line 1"),
    "a tab": (b"a:\n\t- b\n", "f:2:1: malformed YAML: found character that cannot start any token"),
    "two colons": (b"a: b: c\n", "f:1:5: malformed YAML: mapping values are not allowed in this context"),
    "a bracket that stays open": (
        b"a: [1\nb: 2\n",
        "f:2:2: malformed YAML: did not find expected ',' or ']' while parsing a flow sequence that starts on line 1",
    ),
    "a quote that stays open": (
        b'a: 1\nb: "x\nc: 2\n',
        "f:4:1: malformed YAML: found unexpected end of stream while scanning a quoted scalar that starts on line 2",
    ),
    "an item among keys": (b"a: 1\n- b\n", "f:2:1: malformed YAML: did not find expected key"),
    "an at sign": (b"a: @b\n", "f:1:4: malformed YAML: found character that cannot start any token"),
    "an alias of nothing": (b"a: *b\n", "f:1:4: malformed YAML: found undefined alias"),
    "an alias in itself": (b"a: &b [*b]\n", "f:1:4: nested deeper than 100 levels; an alias may contain itself"),
    "deep brackets": (b"[" * 100_000, "f:1:100: nested deeper than 100 levels"),
    "deep lists": (b"- " * 100_000, "f:1:199: nested deeper than 100 levels"),
    "a control character": (b"a: b\nc: \x01\n", "f:2:4: malformed YAML: control characters are not allowed"),
    "Latin-1": ("a: b\nc: ä\n".encode("latin-1"), "f:2:4: not UTF-8 (byte 0xe4); save the file as UTF-8"),
    "UTF-16": ("a: b\n".encode("utf-16"), "f:1:1: not UTF-8 (UTF-16)"),
    "no number": (b"a: .nan\n", "f:1:4: .nan is not a number in JSON"),
    "no number for a document": (b".nan\n", "f:1:1: .nan is not a number in JSON"),
    "half a character in JSON": (rb'{"a": "\ud800"}', "f:1:10: malformed YAML: found invalid Unicode"),
    "an object of Python": (b"a: !!python/object:os.system x\n", "f:1:4: tag !!python/object:os.system has no meaning"),
    "an unknown tag": (b"a: !secret x\n", "f:1:4: tag !secret has no meaning in a manifest; remove it"),
    "a tag that lies": (b"a: !!int x\n", "f:1:4: 'x' is not of type !!int"),
    "a list for a key": (b"? [a]\n: b\n", "f:1:3: a key must be text or a number"),
    "nothing for a key": (b"~: b\n", "f:1:1: a key must be text or a number"),
    "text merged": (b"a: {<<: b}\n", "f:1:9: '<<' must be a mapping or a list of mappings"),
    "a mapping merged into itself": (b"a: &b {<<: *b}\n", "f:1:4: nested deeper than 100 levels; an alias may contain"),
    "a list for a manifest": (b"a: 1\n---\n- b\n", "f:3:1: a manifest is a mapping with apiVersion and kind"),
    "text in a List": (b"kind: List\nitems:\n- {a: 1}\n- b\n", "f:4:3: a manifest is a mapping"),
}


def read(content: str | bytes, source: str = "f") -> list[documents.Document]:
    return list(documents.parse(content.encode() if isinstance(content, str) else content, source))


def values(content: str | bytes) -> list[Any]:
    return [document.value for document in read(content)]


def bomb() -> bytes:
    """Return nine levels of nine aliases each: ten lines that expand to a billion items."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 10)]
    return "\n".join(lines).encode()


@pytest.mark.parametrize("text", MEANINGS, ids=lambda text: text[:30])
def test_scalars_are_read_as_by_kubectl(text: str) -> None:
    (found,) = values(f"a: {text}\n")
    assert found == {"a": MEANINGS[text]}
    assert type(found["a"]) is type(MEANINGS[text])


def test_keys_become_text_as_in_json() -> None:
    assert values("1: a\ntrue: b\n2.5: c\n0x10: d\n") == [{"1": "a", "true": "b", "2.5": "c", "16": "d"}]


@pytest.mark.parametrize("name", BAD)
def test_malformed_documents_are_rejected_with_the_position(name: str) -> None:
    content, message = BAD[name]
    with pytest.raises(DocumentError) as error:
        read(content)
    assert message in str(error.value)


def test_aliases_that_expand_without_end_are_rejected() -> None:
    with pytest.raises(DocumentError, match="aliases expand to too many nodes"):
        read(bomb())


def test_anchors_aliases_and_merges_work() -> None:
    text = "base: &b {p: 1, q: 2}\nother: &o {q: 3, r: 4}\nuse: {<<: [*b, *o], p: 0}\nsame: *b\n"
    assert values(text)[0]["use"] == {"p": 0, "q": 2, "r": 4}
    assert values(text)[0]["same"] == {"p": 1, "q": 2}


def test_empty_documents_are_skipped() -> None:
    assert values("---\n# nothing\n---\na: 1\n---\n---\nnull\n---\nb: 2\n...\n") == [{"a": 1}, {"b": 2}]


@pytest.mark.parametrize("content", [b"", b"\n\n", b"# nothing", b"---", b"\xef\xbb\xbf"])
def test_an_empty_file_has_no_documents(content: bytes) -> None:
    assert values(content) == []


def test_lists_are_unfolded() -> None:
    text = "kind: List\nitems:\n- {a: 1}\n- kind: TFDistJobList\n  items:\n  - {b: 2}\n---\nc: 3\n"
    found = read(text)
    assert [document.value for document in found] == [{"a": 1}, {"b": 2}, {"c": 3}]
    assert [document.number for document in found] == [1, 2, 3]
    assert [document.locate(path) for document, path in zip(found, "abc", strict=True)] == [(3, 4), (6, 6), (8, 1)]


def test_a_byte_order_mark_and_crlf_are_accepted() -> None:
    (document,) = read(b"\xef\xbb\xbfa: 1\r\nb:\r\n  c: 2\r\n")
    assert document.value == {"a": 1, "b": {"c": 2}}
    assert document.locate("b.c") == Position(3, 3)


def test_json_is_read_from_any_file_and_as_a_stream() -> None:
    value = {"a": "\t\U0001f600", "b": [1, 2.5, 1e3, None, True]}
    assert values(json.dumps(value)) == [value]
    assert values(json.dumps(value) + "\n" + json.dumps({"c": 1})) == [value, {"c": 1}]


def test_braces_without_quotes_are_yaml() -> None:
    assert values("{a: yes}\n---\n{b: 1}\n") == [{"a": True}, {"b": 1}]


def test_characters_that_yaml_forbids_are_read_from_json() -> None:
    value = {"a": "\x7f\x85\u2028\ufeff \\ \\ud83d", "b": ["\U0001f600", "\\"]}
    for escaped in (True, False):
        assert values(json.dumps(value, ensure_ascii=escaped)) == [value]


def test_a_json_file_may_hold_yaml_as_for_kubectl() -> None:
    assert read("{a: yes}", "f.json")[0].value == {"a": True}


def test_positions_in_json_are_those_of_the_file() -> None:
    text = '{"a": 1}\n  {\n\t"b": "\\ud83d\\ude00",\n\t"c": [1, {"d": 2}]\n}'
    assert read(text)[1].locate("c[1].d") == Position(4, 12)


PLACES = """\
metadata:
  labels:
    a.b/c: x
    'with space': x
spec:
  volumes: [{name: v, hostPath: {path: /}}]
  worker:
    resources:
      limits:
        nvidia.com/gpu: 1
    env:
    - name: A
    - &two
      name: B
      value: x
  chief:
    env: [*two]
    <<: {image: i}
"""


@pytest.mark.parametrize(
    ("path", "line", "column"),
    [
        ("", 1, 1),
        ("spec", 5, 1),
        ("metadata.labels['a.b/c']", 3, 5),
        ('metadata.labels["a.b/c"]', 3, 5),
        ("metadata.labels.a.b/c", 3, 5),
        ("metadata.labels['with space']", 4, 5),
        ("spec.worker.resources.limits['nvidia.com/gpu']", 10, 9),
        ("spec.worker.resources.limits.nvidia.com/gpu.int", 10, 9),
        ("spec.volumes[0].hostPath.path", 6, 34),
        ("spec.worker.env[0].name", 12, 7),
        ("spec.worker.env[1]", 13, 7),
        ("spec.worker.env[1].name", 14, 7),
        ("spec.worker.env[2].name", 11, 5),
        ("spec.worker.env.name", 11, 5),
        ("spec.chief.env[0].value", 15, 7),
        ("spec.chief.image", 18, 10),
        ("spec.training.program", 5, 1),
        ("spec.work", 5, 1),
        ("unheard.of", 1, 1),
    ],
)
def test_the_position_of_a_path_or_of_its_deepest_existing_part_is_found(path: str, line: int, column: int) -> None:
    (document,) = read(PLACES)
    assert document.locate(path) == Position(line, column)


def test_a_folder_is_read_with_those_below_it_in_order(tmp_path: pathlib.Path) -> None:
    (tmp_path / "b").mkdir()
    for name in ("c.yaml", "a.yml", "b/d.json", "b/notes.txt"):
        (tmp_path / name).write_text('{"kind": "' + name + '"}')
    found = [document.value["kind"] for file in documents.files(str(tmp_path)) for document in documents.read(file)]
    assert found == ["a.yml", "b/d.json", "c.yaml"]


def test_a_folder_without_manifests_is_an_error(tmp_path: pathlib.Path) -> None:
    with pytest.raises(DocumentError, match=r"the folder has no file that ends in .yaml, .yml, .json"):
        documents.files(str(tmp_path))


def test_standard_input_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(b"a: 1\n")))
    (document,) = documents.read("-")
    assert (document.value, document.source) == ({"a": 1}, "<stdin>")


def test_a_missing_file_and_an_unreadable_one_have_different_messages(tmp_path: pathlib.Path) -> None:
    (tmp_path / "loop.yaml").symlink_to("loop.yaml")
    errors: list[str] = []
    names = [str(tmp_path / name) for name in ("none.yaml", "loop.yaml", "nul\0.yaml")]
    assert list(documents.read_all(names, lambda error: errors.append(error.message))) == []
    assert errors[0] == "no such file or folder"
    assert "cannot be read: Too many levels of symbolic links" in errors[1]
    assert "cannot be read" in errors[2]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every folder")
def test_a_folder_without_permission_is_an_error(tmp_path: pathlib.Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0)
    with pytest.raises(DocumentError, match="cannot be read: Permission denied"):
        documents.files(str(closed))


def test_an_unreadable_file_does_not_hide_others(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a.yaml").write_text("a: [")
    (tmp_path / "b.yaml").write_text("b: 1")
    errors: list[DocumentError] = []
    assert [document.value for document in documents.read_all([str(tmp_path)], errors.append)] == [{"b": 1}]
    assert len(errors) == 1


def test_a_file_over_the_size_limit_is_rejected(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    monkeypatch.setattr(documents, "MAX_BYTES", 1 << 20)
    (tmp_path / "a.yaml").write_bytes(b"#" * ((1 << 20) + 1))
    with pytest.raises(DocumentError, match="larger than 1 MiB"):
        list(documents.read(str(tmp_path / "a.yaml")))
