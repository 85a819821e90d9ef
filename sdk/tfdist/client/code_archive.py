"""Packs a folder of code for `training.source`: the same files always give the same bytes."""

import gzip
import hashlib
import io
import os
import stat
import tarfile
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from pathspec import GitIgnoreSpec

from tfdist.client.errors import CodeError
from tfdist.client.ignored_files import IgnoreRules, is_secret
from tfdist.contract import CODE_BYTES, CODE_FILES, STORED_CODE_BYTES

PART_BYTES: Final = 900 << 10
"""Limit on the part of an archive in one ConfigMap, which has at most 1 MiB."""
PACKED_BYTES: Final = 8 << 20
"""Limit on an archive in ConfigMaps: a node keeps the ConfigMaps of each of its pods in memory."""

_HASH_CHARACTERS: Final = 8
_LARGEST: Final = 10
_INCLUDE: Final = "the option --include PATTERN (in Python include=[PATTERN]) sends one nevertheless"
_ADVICE: Final = (
    "name what is not code in .tfdistignore or .gitignore, or take the code from a Git repository or a claim "
    "(training.source), or from an image"
)
_STORE_ADVICE: Final = (
    "send it through an object store by --code-store s3://bucket/prefix (in Python code_store=...), or "
)


@dataclass(frozen=True, slots=True)
class CodeArchive:
    """A packed folder: the bytes of a tar file compressed with gzip, and the paths of its files."""

    content: bytes
    files: tuple[str, ...]
    secrets: tuple[str, ...] = ()
    """Files of the folder that may contain credentials, and were left out."""
    store: str | None = None
    """URL of the object store that it goes to, see `code_store.store_of`; None for ConfigMaps."""

    @property
    def sha256(self) -> str:
        """The hash of the content."""
        return hashlib.sha256(self.content).hexdigest()

    @property
    def digest(self) -> str:
        """The first characters of the content's hash."""
        return self.sha256[:_HASH_CHARACTERS]

    @property
    def parts(self) -> tuple[bytes, ...]:
        """The content, cut for ConfigMaps."""
        return tuple(self.content[start : start + PART_BYTES] for start in range(0, len(self.content) or 1, PART_BYTES))

    @property
    def warning(self) -> str | None:
        """Names the files that were left out as credentials, and how to send one nevertheless."""
        if not self.secrets:
            return None
        more = [f"and {len(self.secrets) - _LARGEST} more"] if len(self.secrets) > _LARGEST else []
        names = ", ".join([*self.secrets[:_LARGEST], *more])
        return f"left out of the code, as they may contain credentials: {names}; {_INCLUDE}"


@dataclass(frozen=True, slots=True)
class _File:
    """A file to pack: its path in the archive, where it is, and its size."""

    name: str
    path: Path
    size: int


def pack(
    path: Path, include: Sequence[str] = (), store: str | None = None, generated: Mapping[str, bytes] | None = None
) -> CodeArchive:
    """Return the archive of a folder, or of one file; `include` and `store` as in `pack_folder`.

    With `generated` it is as in `pack_with`.

    Raises:
        CodeError: as in `pack_folder`.
    """
    if not generated:
        return pack_file(path.name, path.parent, store) if path.is_file() else pack_folder(path, include, store)
    if not path.is_file():
        return pack_with(generated, path, include, store)
    return pack_with({path.name: read_file(path)} | dict(generated), None, store=store)


def read_file(path: Path) -> bytes:
    """Return the content of a file.

    Raises:
        CodeError: it cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise CodeError(_unreadable(error, path)) from None


def pack_folder(folder: Path, include: Sequence[str] = (), store: str | None = None) -> CodeArchive:
    """Return the archive of a folder, without the files that its `.gitignore` and `.tfdistignore` name.

    Args:
        folder: the code.
        include: patterns, as in `.gitignore`, of files to pack although they may contain credentials.
        store: URL of the object store for the archive, which may be larger then.

    Raises:
        CodeError: a file cannot be read, a link points outside of the folder, or the folder has no files or is too
            large.
    """
    if not folder.is_dir():
        raise CodeError(f"{folder}: no such folder")
    files, found = _without_secrets(_list_files(folder), include)
    if not files and found:
        raise CodeError(f"{folder}: all files may contain credentials: {', '.join(found[:_LARGEST])}; {_INCLUDE}")
    if not files:
        raise CodeError(f"{folder}: there is no file to pack: the folder is empty, or .gitignore names all of it")
    return replace(_pack(folder, files, store), secrets=found)


def pack_file(name: str, folder: Path, store: str | None = None) -> CodeArchive:
    """Return the archive of one file, with its path relative to `folder`.

    Raises:
        CodeError: the file cannot be read, or is too large.
    """
    path = Path(os.path.realpath(folder / name))
    try:
        return _pack(folder, [_File(name, path, path.stat().st_size)], store)
    except OSError as error:
        raise CodeError(_unreadable(error, path)) from None


def pack_with(
    generated: Mapping[str, bytes], folder: Path | None, include: Sequence[str] = (), store: str | None = None
) -> CodeArchive:
    """Return the archive of a folder, or of nothing, in which generated files replace files with the same paths.

    `include` and `store` mean the same as in `pack_folder`.

    Raises:
        CodeError: see `pack_folder`; here a folder may be empty.
    """
    if folder is not None and not folder.is_dir():
        raise CodeError(f"{folder}: no such folder")
    with tempfile.TemporaryDirectory() as temporary:
        kept, found = _without_secrets(_list_files(folder) if folder is not None else (), include)
        files = {file.name: file for file in kept}
        for name, content in generated.items():
            path = Path(temporary, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            files[name] = _File(name, path, len(content))
        packed = _pack(folder or Path(temporary), [files[name] for name in sorted(files)], store)
        return replace(packed, secrets=found)


def _without_secrets(files: Iterable[_File], include: Sequence[str]) -> tuple[list[_File], tuple[str, ...]]:
    """Return the files to pack, and the paths of those that may contain credentials and are not included."""
    try:
        included = GitIgnoreSpec.from_lines(include)
    except ValueError as error:
        raise CodeError(f"include: an invalid pattern: {error}") from None
    kept: list[_File] = []
    secrets: list[str] = []
    for file in files:
        try:
            is_kept = included.match_file(file.name) or not is_secret(file.path, file.name)
        except OSError as error:
            raise CodeError(_unreadable(error, file.path)) from None
        if is_kept:
            kept.append(file)
        else:
            secrets.append(file.name)
    return kept, tuple(secrets)


def _list_files(folder: Path) -> list[_File]:
    """Return the files to pack, sorted by path."""
    root, files = folder.resolve(), []
    pending = [(root, IgnoreRules.above(root))]
    while pending:
        directory, outer = pending.pop()
        try:
            rules = outer.within(directory)
            entries = sorted(os.scandir(directory), key=lambda entry: entry.name)
            for entry in entries:
                path, is_folder = Path(entry.path), entry.is_dir(follow_symlinks=False)
                if rules.ignore(path, is_folder=is_folder):
                    continue
                if is_folder:
                    pending.append((path, rules))
                elif entry.is_file(follow_symlinks=False) or entry.is_symlink():
                    files.append(_describe_file(path, root, path.relative_to(root).as_posix()))
        except OSError as error:
            raise CodeError(_unreadable(error, directory)) from None
    return sorted(files, key=lambda file: file.name)


def _describe_file(path: Path, root: Path, name: str) -> _File:
    if path.is_symlink() and not _target(path).is_relative_to(root):
        raise CodeError(
            f"{path}: the link points to {path.readlink()}, outside of the folder; name it in .tfdistignore, or "
            "replace it by the file"
        )
    try:
        return _File(name, path, path.lstat().st_size)
    except OSError as error:
        raise CodeError(_unreadable(error, path)) from None


def _target(link: Path) -> Path:
    """Return what a link points to; the link itself for one that leads back to itself."""
    try:
        return link.resolve()
    except (OSError, RuntimeError):
        return link


def _pack(folder: Path, files: Sequence[_File], store: str | None) -> CodeArchive:
    total, limit = sum(file.size for file in files), CODE_BYTES if store is None else STORED_CODE_BYTES
    if total > limit:
        raise CodeError(_too_large(folder, f"{_size(total)}, and {_size(limit)} fit", files, store))
    if len(files) > CODE_FILES:
        raise CodeError(f"{folder}: the code has {len(files)} files, and {CODE_FILES} fit; {_ADVICE}")
    content = _compress(folder.resolve(), files)
    if store is None and len(content) > PACKED_BYTES:
        size = f"{_size(len(content))} when packed, and {_size(PACKED_BYTES)} fit into ConfigMaps"
        raise CodeError(_too_large(folder, size, files, store))
    return CodeArchive(content, tuple(file.name for file in files), store=store)


def _compress(root: Path, files: Iterable[_File]) -> bytes:
    buffer = io.BytesIO()
    with (
        gzip.GzipFile(filename="", fileobj=buffer, mode="wb", mtime=0) as stream,
        tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for file in files:
            try:
                _add(archive, file, root)
            except OSError as error:
                raise CodeError(_unreadable(error, file.path)) from None
    return buffer.getvalue()


def _add(archive: tarfile.TarFile, file: _File, root: Path) -> None:
    """Add a file without what differs between two clones of the same code: time, owner, and most of its mode."""
    info = tarfile.TarInfo(file.name)
    if file.path.is_symlink():
        info.type = tarfile.SYMTYPE
        info.linkname = os.path.relpath(_target(file.path), root / Path(file.name).parent)
        archive.addfile(info)
        return
    content = file.path.read_bytes()
    info.size = len(content)
    info.mode = 0o755 if file.path.stat().st_mode & stat.S_IXUSR else 0o644
    archive.addfile(info, io.BytesIO(content))


def _too_large(folder: Path, size: str, files: Sequence[_File], store: str | None) -> str:
    largest = sorted(files, key=lambda file: -file.size)[:_LARGEST]
    lines = "".join(f"\n{_size(file.size):>12}  {file.name}" for file in largest)
    advice = _ADVICE if store is not None else f"{_STORE_ADVICE}{_ADVICE}"
    return f"{folder}: the code is too large: {size}; {advice}. The largest files:{lines}"


def _size(size: int) -> str:
    return f"{size / (1 << 20):.1f} MiB" if size >= 1 << 20 else f"{size / (1 << 10):.1f} KiB"


def _unreadable(error: OSError, path: Path) -> str:
    reason = f"{error.filename or path}: cannot be read: {error.strerror or error}"
    return f"{reason}; if it is not code, name it in .tfdistignore"
