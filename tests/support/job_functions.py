"""Functions of notebooks that become jobs, and the output of the code that is sent of them."""

import io
import linecache
import pathlib
import subprocess
import sys
import tarfile
from typing import Any

import tfdist
from tfdist.client.code_archive import CodeArchive
from tfdist.client.function import JobFunction
from tfdist.contract import FUNCTION_SCRIPT

Function = JobFunction[..., Any]

SDK = str(pathlib.Path(tfdist.__file__).parents[1])


def cell(source: str, name: str = "train") -> Function:
    """Return a function of a notebook, whose cell has this source; the notebook imports tfdist."""
    file = f"<cell {len(linecache.cache)}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    variables: dict[str, Any] = {"__name__": "__main__", "tfdist": tfdist}
    exec(compile(source, file, "exec"), variables)  # noqa: S102  as a notebook does
    function: Function = variables[name]
    return function


def unpacked(archive: CodeArchive, folder: pathlib.Path) -> pathlib.Path:
    with tarfile.open(fileobj=io.BytesIO(archive.content)) as packed:
        packed.extractall(folder, filter="data")
    return folder


def run(archive: CodeArchive, *, installed: bool = True, code: int = 0) -> str:
    """Return the output of the script of an archive, in a folder and process of its own, with tfdist or without it."""
    script = unpacked(archive, pathlib.Path("unpacked").resolve()) / FUNCTION_SCRIPT
    options, environment = ([], {"PYTHONPATH": SDK}) if installed else (["-S"], {})
    command = [sys.executable, *options, str(script)]
    ended = subprocess.run(command, env=environment, capture_output=True, check=False, text=True)
    assert ended.returncode == code, ended.stderr
    return ended.stdout if code == 0 else ended.stderr
