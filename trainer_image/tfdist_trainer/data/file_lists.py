"""Reads a list of files: a text file with a path, URL or pattern on each line.

It is read in the trainer, so that its length is not limited by the environment variable with the configuration.
"""

from pathlib import Path

from tfdist_trainer.atomic import input_failure
from tfdist_trainer.data.files import Pattern
from tfdist_trainer.data.object_cache import local
from tfdist_trainer.errors import DataMalformedError, DataMissingError, TrainerError
from tfdist_trainer.storage.object_urls import is_url, join_url


def read_list(name: str, field: str) -> tuple[Pattern, ...]:
    """Return the patterns in the list `name`, a file in UTF-8.

    Empty lines, and lines that begin with `#`, are skipped. A relative path is relative to the folder of the list,
    which may be in an object store.

    Args:
        name: path or URL of the list.
        field: path of the field of the job that names the list, for messages.

    Raises:
        DataMissingError: the list cannot be opened, or names no file. Other errors as of `object_cache.local`.
        StorageError: the list cannot be read.
        DataMalformedError: it is not a text file in UTF-8.
    """
    patterns = []
    for number, line in enumerate(_content(name, field).split(b"\n"), 1):
        where = f"{field}: {name}: line {number}"
        text = _text(line, where)
        if not text or text.startswith("#"):
            continue
        patterns.append(Pattern(_in_folder_of(name, text), where, name))
    if not patterns:
        raise DataMissingError(f"{field}: {name} names no file; write the path of a file on each line")
    return tuple(patterns)


def _content(name: str, field: str) -> bytes:
    try:
        return Path(local(name)).read_bytes().removeprefix(b"\xef\xbb\xbf")
    except TrainerError as error:
        raise type(error)(f"{field}: cannot read the list of files: {error}") from None
    except OSError as error:
        failure = input_failure(error, f"{field}: cannot open the list of files {name}")
        remedy = "; check the path and that the volume is mounted" if isinstance(failure, DataMissingError) else ""
        raise type(failure)(f"{failure}{remedy}") from None


def _in_folder_of(name: str, text: str) -> str:
    """Return the path, URL or pattern `text` of the list `name`, absolute."""
    if "://" in text:
        return text
    return join_url(name.rpartition("/")[0], text) if is_url(name) else str(Path(name).parent / text)


def _text(line: bytes, where: str) -> str:
    """Return the text of `line` without the space around it."""
    try:
        text = line.decode().strip()
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise DataMalformedError(f"{where}: is not text in UTF-8; a list of files has a path on each line")
    return text
