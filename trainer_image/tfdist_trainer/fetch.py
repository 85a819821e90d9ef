"""Writes the code of a job to a directory: a revision of a Git repository, or an archive.

    python -m tfdist_trainer.fetch REPOSITORY REVISION TARGET
    python -m tfdist_trainer.fetch ARCHIVE TARGET
    python -m tfdist_trainer.fetch --sha256 HASH PART... TARGET
    python -m tfdist_trainer.fetch --sha256 HASH URL TARGET

The init container of a job with `training.source.git`, `archive` or `object` runs this. It needs no `git` program, and
credentials only for an object, and writes only to the directory TARGET.
"""

import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from dulwich import client as clients
from dulwich.errors import GitProtocolError, HangupException, NotGitRepository, SendPackError
from dulwich.index import build_index_from_tree
from dulwich.objects import Commit, ObjectID, Tag
from dulwich.repo import Repo

from tfdist.contract import ExitCode
from tfdist_trainer import log, packed_code
from tfdist_trainer.errors import DataMissingError, StorageError, TrainerError, UsageError, classify, one_line
from tfdist_trainer.storage import object_urls

COMMIT: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
PEELED: Final = b"^{}"
"""Suffix of the listed commit of an annotated tag, which cannot be fetched by this name."""

SHALLOW: Final = 1
"""Depth of the history to fetch, if the server supports it."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Fetch as given on the command line, log any failure, and return the exit code."""
    command = sys.argv[1:] if arguments is None else list(arguments)
    try:
        _write_code(command)
    except Exception as error:
        failure = classify(error)
        log.error(f"tfdist-fetch: {failure.message}")
        return failure.exit_code
    return ExitCode.DONE


def _write_code(arguments: Sequence[str]) -> None:
    match arguments:
        case ["--sha256", sha256, url, target] if object_urls.is_url(url):
            packed_code.fetch_object(url, sha256, _emptied(target))
        case ["--sha256", sha256, part, *parts, target]:
            packed_code.unpack_parts([Path(part), *map(Path, parts)], sha256, _emptied(target))
        case [packed, target]:
            packed_code.unpack_parts([Path(packed)], None, _emptied(target))
        case [repository, revision, target]:
            fetch(repository, revision, Path(target))
        case _:
            raise UsageError(
                "usage: python -m tfdist_trainer.fetch REPOSITORY REVISION TARGET, or ARCHIVE TARGET, or --sha256 HASH "
                "PART... TARGET, or --sha256 HASH URL TARGET"
            )


def fetch(repository: str, revision: str, target: Path) -> str:
    """Write the files of `revision`, a commit, tag, branch or `HEAD`, to `target`, and return the commit.

    The content of `target` is removed first: an earlier attempt may have been interrupted.

    Raises:
        DataMissingError: the revision or the repository does not exist.
        StorageError: the repository cannot be reached, or `target` cannot be written.
    """
    try:
        # An earlier attempt of the init container may have been interrupted.
        _clear(target)
        with Repo.init(str(target), mkdir=not target.exists()) as repo:
            name = _fetch_into(repo, repository, revision)
            commit = _commit_of(repo, name, repository, revision)
            build_index_from_tree(repo.path, repo.index_path(), repo.object_store, commit.tree)
    except NotGitRepository:
        raise DataMissingError(f"training.source.git.repository: there is no repository at {repository}") from None
    except (GitProtocolError, HangupException, SendPackError, OSError) as error:
        raise StorageError(f"training.source.git: cannot fetch {repository}: {one_line(str(error))}") from None
    except TrainerError:
        raise
    except Exception as error:  # the HTTP library has its own exception classes
        if type(error).__module__.partition(".")[0] != "urllib3":
            raise
        raise StorageError(f"training.source.git: cannot reach {repository}: {one_line(str(error))}") from None
    text = commit.id.decode()
    log.event("fetched", repository=repository, revision=revision, commit=text)
    return text


def _fetch_into(repo: Repo, repository: str, revision: str) -> bytes:
    """Fetch `revision` and return the name of its object, a commit or a tag."""
    client, path = clients.get_transport_and_path(repository)
    refs: Mapping[Any, Any] = client.get_refs(path.encode() if isinstance(path, str) else path).refs
    object_id = _resolve(refs, revision)
    # A branch or a tag, whose head every server serves.
    if object_id is not None:
        _fetch_objects(client, path, repo, [object_id], depth=SHALLOW)
        return object_id
    if not COMMIT.fullmatch(revision):
        raise DataMissingError(
            f"training.source.git.revision: {repository} has no branch or tag {revision!r}; a commit is given with "
            "all its 40 digits"
        )
    object_id = revision.encode()
    try:
        _fetch_objects(client, path, repo, [object_id], depth=SHALLOW)
    except (GitProtocolError, HangupException, KeyError) as error:
        log.event("fetching-all", reason=one_line(str(error)) or type(error).__name__)
    if ObjectID(object_id) not in repo.object_store:
        # Some servers do not serve commits that are not the head of a branch: fetch everything.
        all_objects = sorted({name for ref, name in refs.items() if not ref.endswith(PEELED)})
        _fetch_objects(client, path, repo, all_objects)
    return object_id


def _fetch_objects(client: Any, path: Any, repo: Repo, object_ids: Sequence[bytes], depth: int | None = None) -> None:
    client.fetch(path, repo, determine_wants=lambda *_, **__: list(object_ids), depth=depth)


def _resolve(refs: Mapping[Any, Any], revision: str) -> bytes | None:
    """Return the object of a branch, tag or full reference, resolved in Git's order; None if there is none."""
    for pattern in ("{}", "refs/{}", "refs/tags/{}", "refs/heads/{}"):
        object_id = refs.get(pattern.format(revision).encode())
        if object_id is not None:
            return bytes(object_id)
    return None


def _commit_of(repo: Repo, name: bytes, repository: str, revision: str) -> Commit:
    try:
        resolved = repo[name]
        while isinstance(resolved, Tag):
            resolved = repo[resolved.object[1]]
    except KeyError:
        resolved = None
    if not isinstance(resolved, Commit):
        raise DataMissingError(f"training.source.git.revision: {repository} has no commit {revision}") from None
    return resolved


def _emptied(target: str) -> Path:
    """Return an empty directory: an earlier attempt of the init container may have been interrupted."""
    path = Path(target)
    _clear(path)
    path.mkdir(parents=True, exist_ok=True)
    return path


def _clear(target: Path) -> None:
    for path in target.iterdir() if target.exists() else ():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


if __name__ == "__main__":
    sys.exit(main())
