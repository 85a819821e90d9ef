"""Installs the packages of a job in a folder: the wheels that a file of requirements names, each with its hash.

    python -m tfdist_trainer.install REQUIREMENTS TARGET

The init container of a job with `training.requirements` runs this. It runs the pip of its Python, and says in one line
what failed and what to do: pip's own last lines name neither the index nor a remedy.
"""

import re
import subprocess
import sys
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tfdist.contract import ExitCode
from tfdist.package_installation import pip_arguments
from tfdist_trainer import log
from tfdist_trainer.errors import (
    ConfigurationError,
    DataMissingError,
    StorageError,
    TrainerError,
    UsageError,
    classify,
    one_line,
)

_KEPT_LINES: Final = 400
_FIELD: Final = "training.requirements"
_PYPI: Final = "PyPI"
"""The index of pip, which pip names only if another one is set."""

_INDEX: Final = re.compile(r"^Looking in indexes: (.{1,2048})$", re.MULTILINE)
_NO_NETWORK: Final = re.compile(
    r"NewConnectionError|ConnectTimeout|NameResolutionError|Max retries exceeded|ProxyError|ReadTimeout|SSLError|"
    r"connection broken by|Connection (?:refused|reset|aborted)|IncompleteRead"
)
_NO_FILE: Final = re.compile(r"No matching distribution found for ([^\n(]{1,256})")
_OTHER_HASH: Final = re.compile(r"DO NOT MATCH THE HASHES[^\n]{0,1024}\n\s{0,8}([^\s]{1,512})")
_NO_HASH: Final = re.compile(r"Hashes are required in --require-hashes mode|must have their versions pinned with ==")
_NO_PIP: Final = re.compile(r"No module named pip\b")
_ERROR_LINE: Final = re.compile(r"^\s*(?:ERROR|error): (.{1,1024})$", re.MULTILINE)


def main(arguments: Sequence[str] | None = None) -> int:
    """Install as given on the command line, log any failure, and return the exit code."""
    command = sys.argv[1:] if arguments is None else list(arguments)
    try:
        install(*_paths(command))
    except Exception as error:
        failure = classify(error)
        log.error(f"tfdist-install: {failure.message}")
        return failure.exit_code
    return ExitCode.DONE


def _paths(arguments: Sequence[str]) -> tuple[Path, Path]:
    match arguments:
        case [requirements, target]:
            return Path(requirements), Path(target)
        case _:
            raise UsageError("usage: python -m tfdist_trainer.install REQUIREMENTS TARGET")


def install(requirements: Path, target: Path) -> None:
    """Install the wheels that a file names in the folder `target`; pip's output goes to standard output.

    What an interrupted attempt has left in the folder is replaced.

    Raises:
        DataMissingError: there is no such file.
        ConfigurationError: a requirement has no hash or another one, or no wheel fits.
        StorageError: the index cannot be reached, or the folder cannot be written.
    """
    if not requirements.is_file():
        raise DataMissingError(f"{_FIELD}: the code has no file {requirements.name} ({requirements})")
    code, output = _run([sys.executable, *pip_arguments(str(requirements), str(target))])
    if code:
        raise _failure(output, requirements.name)
    log.event("installed", requirements=requirements.name, target=target)


def _run(command: Sequence[str]) -> tuple[int, str]:
    """Return the exit code and the last lines of the output of a program, which is copied to standard output."""
    last: deque[str] = deque(maxlen=_KEPT_LINES)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace") as program:
        for line in program.stdout or ():
            print(line, end="", flush=True)
            last.append(line)
    return program.returncode, "".join(last)


def _failure(output: str, name: str) -> TrainerError:
    """Return the error that pip's output describes."""
    wheels = f"put the wheels in the code, and the lines --no-index and --find-links FOLDER in {name}"
    if _NO_PIP.search(output):
        return ConfigurationError(f"{_FIELD}: this Python has no pip: install it with python -m ensurepip")
    if (other := _OTHER_HASH.search(output)) is not None:
        return ConfigurationError(
            f"{_FIELD}: the file of {other[1]} has another hash than {name} says: it was replaced in the index or in "
            "the folder of wheels; lock the requirements again, as tfdist submit --requirements does"
        )
    if _NO_HASH.search(output):
        return ConfigurationError(
            f"{_FIELD}: a requirement in {name} lacks its version or hash: tfdist submit --requirements adds them, "
            "and so does uv pip compile --generate-hashes"
        )
    if (cause := _NO_NETWORK.search(output)) is not None:
        index = _INDEX.search(output)
        return StorageError(
            f"{_FIELD}: cannot reach the package index {index[1] if index else _PYPI} ({cause[0]}): the pod has no "
            f"network to it; set PIP_INDEX_URL in env to an index that it can reach, or {wheels}"
        )
    if (missing := _NO_FILE.search(output)) is not None:
        version = ".".join(map(str, sys.version_info[:2]))
        return ConfigurationError(
            f"{_FIELD}: there is no wheel of {missing[1].strip()} for Python {version} on this platform in the index "
            f"or folder; choose another version, or {wheels}"
        )
    errors = _ERROR_LINE.findall(output)
    return StorageError(f"{_FIELD}: pip failed: {one_line(errors[-1] if errors else output[-1024:])}")


if __name__ == "__main__":
    sys.exit(main())
