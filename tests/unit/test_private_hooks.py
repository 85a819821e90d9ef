"""Only `tfdist_trainer/upstream` names private parts of Keras and TensorFlow."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
IMAGE = ROOT / "trainer_image"
UPSTREAM = IMAGE / "tfdist_trainer" / "upstream"
MODULES = sorted(path for path in IMAGE.rglob("*.py") if UPSTREAM not in path.parents)

PRIVATE_MODULE = re.compile(r"(tensorflow\.(python|core|compiler|_api)|(tf_)?keras\.src)\b")
PRIVATE_NAME = re.compile(r"_[A-Za-z]\w*|__internal__")
OF_PYTHON = {"_replace", "_asdict", "_fields", "_exit", "_current_frames"}
"""Names with an underscore that Python's own library documents."""


def private_uses(source: str) -> Iterator[str]:
    """Yield what `source` uses of the private parts of other packages, by line.

    That of its own objects (`self._x`, `cls._x`, names defined in the module) is no matter. A string is one when it is
    the name of a private module, or is passed to a function that takes the name of an attribute.
    """
    tree = ast.parse(source)
    own = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and _is_own(node)}
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                found = [name.name for name in names if PRIVATE_MODULE.match(name.name)]
            case ast.ImportFrom(module=str(module), names=names):
                whole = [f"{module}.{name.name}" for name in names]
                found = [name for name in whole if PRIVATE_MODULE.match(name)]
            case ast.Attribute(attr=attr):
                private = PRIVATE_NAME.fullmatch(attr) and attr not in OF_PYTHON | own and not _is_own(node)
                found = [attr] if private else []
            case ast.Call(func=ast.Name(id="getattr" | "setattr" | "hasattr" | "delattr"), args=[_, name, *_]):
                if isinstance(name, ast.Constant):
                    private = PRIVATE_NAME.fullmatch(str(name.value)) and name.value not in OF_PYTHON
                    found = [str(name.value)] if private else []
                else:
                    found = [ast.unparse(name)] if ast.unparse(name).startswith("_") else []
            case ast.Constant(value=str(text)):
                found = [text] if PRIVATE_MODULE.match(text) else []
            case _:
                found = []
        yield from (f"{getattr(node, 'lineno', 0)}: {name}" for name in found)


def _is_own(node: ast.Attribute) -> bool:
    return ast.unparse(node.value) in {"self", "cls", "super()"}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(IMAGE)))
def test_no_module_outside_upstream_uses_a_private_part(path: Path) -> None:
    assert list(private_uses(path.read_text())) == []


@pytest.mark.parametrize(
    "line",
    [
        "from tensorflow.python import pywrap_tfe",
        "from tensorflow.python.eager import context",
        "import keras.src.layers",
        "from keras import src; from keras.src import layers",
        "optimizer._momentums",
        "tf.__internal__.autograph",
        'getattr(optimizer, "_momentums", None)',
        "setattr(optimizer, _HOOK, None)",
        'sys.modules.get("tensorflow.python.eager.context")',
        "coordinator._cluster.workers",
    ],
)
def test_each_way_to_a_private_part_is_found(line: str) -> None:
    assert list(private_uses(line))
