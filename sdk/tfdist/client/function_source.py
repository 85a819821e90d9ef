"""The source of a function that becomes a job: its module, or its text in a notebook, and a script that calls it.

| the function is defined in | the archive has |
|---|---|
| a file | that module, with the `__init__.py` files of its packages |
| a cell of a notebook | the text of the function, which therefore cannot use variables of other cells |
"""

import ast
import builtins
import dis
import inspect
import sys
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final

from tfdist.client.errors import FunctionError

NOTEBOOK_MODULE: Final = "tfdist_function"
"""Module of a function that has none of its own."""

_FUTURE: Final = "from __future__ import annotations\n\n\n"
"""Annotations are not evaluated: their names may belong to the notebook."""
_INIT: Final = "__init__.py"
_MAIN: Final = "__main__"
_INSTALLED: Final = frozenset({"site-packages", "dist-packages"})
_OF_EVERY_MODULE: Final = frozenset({*dir(builtins), "__file__", "__qualname__", "__module__"})


@dataclass(frozen=True, slots=True)
class FunctionSource:
    """What a job needs to import a function."""

    name: str
    module: str
    files: dict[str, bytes]
    """Content by path in the archive."""
    root: str = ""
    """Folder of the archive in which the module is found."""


def checked(function: Any) -> FunctionType:
    """Return a function that can be found in its module.

    Raises:
        FunctionError: it cannot.
    """
    if not isinstance(function, FunctionType):
        raise FunctionError(f"tfdist.job: {type(function).__name__} {function!r} is not a function; write def NAME()")
    name = function.__qualname__
    if function.__name__ == "<lambda>":
        raise FunctionError("tfdist.job: a lambda cannot become a job; write def NAME()")
    if "<locals>" in name:
        outer = ", ".join(function.__code__.co_freevars)
        uses = f"; it uses {outer} of that function: pass them as arguments" if outer else ""
        raise FunctionError(f"{function.__name__} is defined inside of another function: define it outside{uses}")
    if "." in name:
        raise FunctionError(f"{name} is a method: define a function outside of the class, which calls it")
    if hasattr(function, "__wrapped__"):
        raise FunctionError(f"{name} has another decorator than tfdist.job: remove it, or call it inside of {name}")
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
        raise FunctionError(f"{name} is asynchronous or a generator: write a plain function that runs to its end")
    return function


def source_of(function: FunctionType, folder: Path | None = None) -> FunctionSource:
    """Return the source of a function.

    Args:
        function: one that `checked` accepts.
        folder: the code that is sent with it, in which its module must be.

    Raises:
        FunctionError: the source is not available, has other decorators, or uses what the job would not have.
    """
    definition = _definition(function)
    path = Path(inspect.getsourcefile(function) or "")
    return _of_module(function, path.resolve(), folder) if path.is_file() else _of_notebook(function, definition)


def _definition(function: FunctionType) -> str:
    """Return the text of a function without its decorator."""
    name = function.__name__
    try:
        text = textwrap.dedent(inspect.getsource(function))
        node = ast.parse(text).body[0]
    except (OSError, TypeError, SyntaxError, IndexError):
        node, text = None, ""
    if not isinstance(node, ast.FunctionDef):
        raise FunctionError(f"the source of {name} is not available: define it in a file or in a cell of a notebook")
    if len(node.decorator_list) > 1:
        texts = [ast.unparse(decorator) for decorator in node.decorator_list]
        others = [f"@{decorator}" for decorator in texts if decorator.partition("(")[0].rpartition(".")[2] != "job"]
        decorators = ", ".join(others) or "@tfdist.job twice"
        raise FunctionError(
            f"{name} has {decorators}: remove other decorators than tfdist.job, or call them inside of it"
        )
    return "\n".join(text.splitlines()[node.lineno - 1 : node.end_lineno]) + "\n"


def _of_notebook(function: FunctionType, definition: str) -> FunctionSource:
    text = _FUTURE + definition
    module_code = compile(text, f"{NOTEBOOK_MODULE}.py", "exec")
    global_names = {name for code in _code_of(module_code) for name in _loaded_names(code)} - {function.__name__}
    assigned_names = {
        instruction.argval for code in _code_of(module_code) for instruction in _instructions(code, "STORE_GLOBAL")
    }
    outer = sorted(global_names - assigned_names - _OF_EVERY_MODULE)
    if outer:
        raise FunctionError(_outer_text(function, outer))
    return FunctionSource(function.__name__, NOTEBOOK_MODULE, {f"{NOTEBOOK_MODULE}.py": text.encode()})


def _code_of(code: CodeType) -> Iterator[CodeType]:
    """Yield a code object and the code objects of the functions, classes and comprehensions in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _code_of(constant)


def _loaded_names(code: CodeType) -> set[str]:
    """Return the names that a code object reads and that are not its own."""
    assigned = {instruction.argval for instruction in _instructions(code, "STORE_NAME")}
    return {instruction.argval for instruction in _instructions(code, "LOAD_GLOBAL", "LOAD_NAME")} - assigned


def _instructions(code: CodeType, *names: str) -> Iterator[dis.Instruction]:
    return (instruction for instruction in dis.get_instructions(code) if instruction.opname in names)


def _outer_text(function: FunctionType, names: list[str]) -> str:
    remedies: dict[str, list[str]] = {}
    for name in names:
        remedies.setdefault(_remedy(name, function), []).append(name)
    parts = "; ".join(f"{remedy}: {', '.join(each)}" for remedy, each in remedies.items())
    return f"{function.__name__} uses names of the notebook, which its job does not have; {parts}"


def _remedy(name: str, function: FunctionType) -> str:
    if name not in function.__globals__:
        return "define inside of it"
    value = function.__globals__[name]
    if isinstance(value, ModuleType):
        return "import inside of it"
    if callable(value):
        is_local = getattr(value, "__module__", None) == function.__module__
        return "define inside of it" if is_local else "import inside of it"
    return "pass as arguments"


def _of_module(function: FunctionType, path: Path, folder: Path | None) -> FunctionSource:
    module, root = _module_and_root(function, path)
    if "." in path.stem:
        raise FunctionError(f"{path.name} cannot be imported because of the dot in its name: rename it")
    packages = [parent for parent in path.parents if parent.is_relative_to(root) and parent != root]
    paths = {path, *(parent / _INIT for parent in packages if (parent / _INIT).is_file())}
    files = {file.relative_to(root).as_posix(): file.read_bytes() for file in sorted(paths)}
    if folder is None:
        missing = () if root.name in _INSTALLED else _missing_modules(files, root)
        if missing:
            raise FunctionError(f"{path.name} imports {', '.join(missing)}, which the job would not have: set code")
        return FunctionSource(function.__name__, module, files)
    if not root.is_relative_to(folder.resolve()):
        name = function.__name__
        raise FunctionError(f"code: {folder} does not contain {root}, from where {module} with {name} is imported")
    inside = root.relative_to(folder.resolve())
    files_by_path = {(inside / name).as_posix(): content for name, content in files.items()}
    return FunctionSource(function.__name__, module, files_by_path, "" if inside == Path() else inside.as_posix())


def _module_and_root(function: FunctionType, path: Path) -> tuple[str, Path]:
    """Return the name by which a module can be imported, and the folder from which."""
    name = function.__module__
    if name == _MAIN:
        spec = getattr(sys.modules.get(_MAIN), "__spec__", None)
        name = spec.name if spec else path.stem
    parts = name.split(".")
    trail = [*parts, _INIT] if path.name == _INIT else [*parts[:-1], f"{parts[-1]}.py"]
    if list(path.parts[-len(trail) :]) == trail:
        return name, path.parents[len(trail) - 1]
    return path.stem, path.parent


def _missing_modules(files: Mapping[str, bytes], root: Path) -> list[str]:
    """Return the files below `root` that the modules in `files` import at once, and that are not among them.

    Args:
        files: content of modules by path below `root`.
        root: the folder from which they are imported.
    """
    missing: dict[str, None] = {}
    for path, content in files.items():
        for name in _imports(ast.parse(content), PurePosixPath(path)):
            file = _file_of(name, root)
            if file is not None and file not in files:
                missing[file] = None
    return list(missing)


def _imports(module: ast.Module, path: PurePosixPath) -> Iterator[str]:
    """Yield the names of the modules that the top level of a module may import, without those in `try` and `if`."""
    for node in module.body:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _with_parents(alias.name)
        elif isinstance(node, ast.ImportFrom):
            package = path.parts[:-1][: len(path.parts) - node.level] if node.level else ()
            base = [*package, *(node.module or "").split(".")]
            name = ".".join(part for part in base if part)
            yield from _with_parents(name)
            yield from (f"{name}.{alias.name}" if name else alias.name for alias in node.names)


def _with_parents(name: str) -> Iterator[str]:
    parts = name.split(".")
    return (".".join(parts[:length]) for length in range(1, len(parts) + 1) if name)


def _file_of(name: str, root: Path) -> str | None:
    """Return the path of a module below `root`; None if it does not exist."""
    path = name.replace(".", "/")
    return next((file for file in (f"{path}.py", f"{path}/__init__.py") if (root / file).is_file()), None)
