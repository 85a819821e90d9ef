"""Reading of any file yields documents or an error, and what is written is read back."""

from io import StringIO
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from tfdist.cli import documents, manifests
from tfdist.cli.errors import DocumentError
from tfdist.printable import is_printable

# the characters of YAML's syntax, so that random text is nearly YAML
CONTROL = "\0\x7f\x85\x9b\u202e\u2028\ufeff\U000e0041"
YAML_LIKE = st.text(st.sampled_from("ab01-:?[]{},&*!|>%@#'\"<~.\\ \n\t\ré\U0001f600" + CONTROL), max_size=40)
NO_SURROGATES = st.characters(exclude_categories=["Cs"])
TEXT = st.text(NO_SURROGATES, max_size=20) | YAML_LIKE
LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT
JSON = st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner), max_leaves=12)
MANIFESTS = st.dictionaries(TEXT, JSON, min_size=1).filter(lambda value: not str(value.get("kind")).endswith("List"))


def read(content: bytes, source: str) -> list[dict[str, Any]]:
    """Return the documents of `content`, or none if it is rejected; every position in them can be found."""
    try:
        found = list(documents.parse(content, source))
    except DocumentError:
        return []
    for document in found:
        for path in (*document.value, "a.b[0]['c']"):
            assert document.locate(path).line >= 1
    return [document.value for document in found]


@given(YAML_LIKE | st.text(NO_SURROGATES), st.sampled_from(["f.yaml", "f.json"]))
@example("{", "f.yaml")
@example("? ? ?", "f.yaml")
@example("!<\0>", "f.yaml")
@example('"\\U00110000"', "f.yaml")
@example("%YAML 9.9\n--- a", "f.yaml")
def test_any_text_is_read_or_rejected(text: str, source: str) -> None:
    read(text.encode(), source)


@given(st.binary())
def test_any_bytes_are_read_or_rejected(content: bytes) -> None:
    read(content, "f")


@given(MANIFESTS)
@example({"a": "x\x1b[2J\x9b31m\u202e\U000e0041é\x85y\nz", "\u202e": "é\nü"})
def test_a_value_written_as_yaml_is_read_back(value: dict[str, Any]) -> None:
    stream = StringIO()
    manifests.write_yaml(stream, [(value, ["a comment\n---\nof \x9b2J\u202e lines"]), (value, [])])
    assert read(stream.getvalue().encode(), "f") == [value, value]
    assert is_printable(stream.getvalue()), "a terminal obeys control characters"


@given(MANIFESTS)
@example({"a": "x\x1b[2J\x9b31m\u202e\U000e0041é\x85y\nz", "\u202e": "é\nü"})
def test_a_value_written_as_json_is_read_back(value: dict[str, Any]) -> None:
    stream = StringIO()
    manifests.write_json(stream, [value])
    assert read(stream.getvalue().encode(), "f.json") == [value]
    assert is_printable(stream.getvalue())
