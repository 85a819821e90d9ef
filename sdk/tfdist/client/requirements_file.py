"""A file of requirements, as far as it decides what goes with a job; pip reads the rest of it.

Line ends with a backslash, comments and options are those of pip.
"""

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tfdist.client.errors import RequirementsError
from tfdist.url_credentials import without_credentials

MAX_BYTES: Final = 512 << 10
MAX_LINES: Final = 10_000
"""Limits on a file: 100 packages with all their hashes are a fifth of it."""

_COMMENT: Final = re.compile(r"(?:^|(?<=\s))#.*$")
_NAME: Final = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]{0,213})")
_PINNED: Final = re.compile(r"==\s{0,8}([^\s;,]{1,128})")
_VCS: Final = re.compile(r"(?:^|@|\s)(?:git|hg|svn|bzr)\+")
_LOCAL: Final = re.compile(r"(?:^|@\s?)(?:file:|\.{0,2}/)|^[^@:]{1,1024}\.(?:whl|zip|tar\.gz)(?:\s|$)")
_HASH: Final = re.compile(r"\s--hash[=\s]")
_EDITABLE: Final = ("-e", "--editable")
_NESTED: Final = ("-r", "--requirement", "-c", "--constraint")
_FIND_LINKS: Final = ("-f", "--find-links")
_LINES_OF_THE_LOCK: Final = {
    "-i": "--index-url",
    "--index-url": "--index-url",
    "--extra-index-url": "--extra-index-url",
    "--trusted-host": "--trusted-host",
    "-f": "--find-links",
    "--find-links": "--find-links",
}
"""Options that say where pip finds files, by every name of theirs."""
_WITH_VALUE: Final = frozenset({*_LINES_OF_THE_LOCK, *_EDITABLE, *_NESTED, "--only-binary", "--no-binary"})


def normalized(name: str) -> str:
    """Return the name of a distribution by which the index compares it."""
    return re.sub("[-_.]+", "-", name).lower()


@dataclass(frozen=True, slots=True)
class Requirement:
    """A requirement, and the numbers of its first line and of the line behind it, from 0."""

    text: str
    begin: int
    end: int

    @property
    def name(self) -> str:
        """The normalized name; "" for a URL without one."""
        match = _NAME.match(self.text)
        return normalized(match[1]) if match and not self.text[match.end() :].startswith(":") else ""

    @property
    def version(self) -> str | None:
        """The version after `==`."""
        match = _PINNED.search(self.text.partition(";")[0])
        return match[1] if match else None

    @property
    def has_hash(self) -> bool:
        """Whether `--hash` names its files."""
        return _HASH.search(self.text) is not None


@dataclass(frozen=True, slots=True)
class Option:
    """An option that says where files are, and the number of its line, from 0."""

    name: str
    value: str
    line: int


@dataclass(slots=True)
class RequirementsFile:
    """What is in a file: its requirements, the places of files, and whether it names other files."""

    label: str
    """Its name in messages."""
    path: Path | None
    """Where it is; None for a list of packages."""
    lines: Sequence[str]
    requirements: list[Requirement] = field(default_factory=list)
    options: list[Option] = field(default_factory=list)
    is_nested: bool = False

    @property
    def folder(self) -> Path:
        """Folder that paths in it are relative to."""
        return self.path.parent if self.path else Path()

    def refuse(self, line: int, text: str) -> RequirementsError:
        """Return an error about a line, counted from 0."""
        return RequirementsError(f"{self.label} line {line + 1}: {text}")


def read(path: Path) -> RequirementsFile:
    """Return the content of a file.

    Raises:
        RequirementsError: it cannot be read, is too large, or has what cannot go with a job.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        text = content.decode()
    except OSError as error:
        raise RequirementsError(f"{path}: cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise RequirementsError(f"{path}: not a file of requirements: it is not UTF-8") from None
    return parse(text, str(path), path)


def of_packages(packages: Sequence[str]) -> RequirementsFile:
    """Return requirements as if they were the lines of a file.

    Raises:
        RequirementsError: one is an option of pip, or cannot go with a job.
    """
    for package in packages:
        if not isinstance(package, str) or not _NAME.match(package) or "\n" in package or "\\" in package:
            raise RequirementsError(f"packages: {package!r} is not a requirement, such as 'einops>=0.8'")
    return parse("\n".join(packages), "packages")


def parse(text: str, label: str, path: Path | None = None) -> RequirementsFile:
    """Return the content of a text, in time linear in its length.

    Raises:
        RequirementsError: it is too large, or has what cannot go with a job: an editable requirement, one of a version
            control system or of this machine, or credentials.
    """
    lines = text.split("\n", MAX_LINES + 1)
    if len(text) > MAX_BYTES or len(lines) > MAX_LINES:
        raise RequirementsError(f"{label}: more than {MAX_BYTES >> 10} KiB or {MAX_LINES} lines; use an image")
    result = RequirementsFile(label, path, lines)
    for begin, end, line in _logical_lines(lines):
        if without_credentials(line) != line:
            raise result.refuse(
                begin, "it has credentials, which everyone who can read the job's code could read: set PIP_INDEX_URL "
                "in env from a Secret"
            )  # fmt: skip
        if line.startswith("-"):
            _add_options(result, begin, line)
        else:
            _check(result, begin, line)
            result.requirements.append(Requirement(line, begin, end))
    return result


def _logical_lines(lines: Sequence[str]) -> Iterator[tuple[int, int, str]]:
    """Yield the lines that are not empty, without comments, each with its begin and end."""
    parts: list[str] = []
    begin = 0
    for number, line in enumerate(lines):
        continues = line.rstrip("\r").endswith("\\") and not line.lstrip().startswith("#")
        part = line.rstrip("\r")
        parts.append(part[:-1] if continues else part)
        if continues and number + 1 < len(lines):
            continue
        joined = _COMMENT.sub("", "".join(parts)).strip()
        if joined:
            yield begin, number + 1, joined
        parts, begin = [], number + 1


def _check(file: RequirementsFile, line: int, text: str) -> None:
    if _VCS.search(text):
        raise file.refuse(
            line, "a requirement of a version control system has no hash: build its wheel (pip wheel), and put it in a "
            "folder of wheels in the code, with the line --find-links FOLDER"
        )  # fmt: skip
    if _LOCAL.search(text):
        raise file.refuse(
            line, "the pods do not have this file: put the wheel in a folder of the code, and write its name here and "
            "the line --find-links FOLDER"
        )  # fmt: skip


def _add_options(file: RequirementsFile, line: int, text: str) -> None:
    for name, value in _options(text):
        if name in _EDITABLE:
            raise file.refuse(line, "the pods do not have an editable installation: send its folder with --code")
        if name in _NESTED:
            file.is_nested = True
        elif name == "--no-index":
            file.options.append(Option(name, "", line))
        elif name in _LINES_OF_THE_LOCK:
            file.options.append(Option(_LINES_OF_THE_LOCK[name], value, line))


def _options(text: str) -> Iterator[tuple[str, str]]:
    """Yield the options of a line with their values; "" for one without."""
    try:
        words = iter(shlex.split(text))
    except ValueError:
        words = iter(text.split())
    for word in words:
        name, equals, value = word.partition("=")
        if name[:2] in {"-e", "-r", "-c", "-f", "-i"} and not name.startswith("--") and len(word) > 2:  # noqa: PLR2004
            yield word[:2], word[2:].lstrip("=")
        elif equals or name not in _WITH_VALUE:
            yield name, value
        else:
            yield name, next(words, "")
