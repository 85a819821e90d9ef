"""Which modules next to a module it imports: those that have to be sent with it."""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath


def missing_modules(files: Mapping[str, bytes], root: Path) -> list[str]:
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
