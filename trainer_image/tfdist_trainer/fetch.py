"""`python -m tfdist_trainer.fetch REPOSITORY REVISION TARGET`: one revision of a Git repository into a folder.

The init container of a job with `training.source.git` runs this. It needs neither a git program nor credentials,
and writes nowhere but into TARGET.
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
from tfdist_trainer import log
from tfdist_trainer.errors import DataMissingError, StorageError, TrainerError, UsageError, classify, one_line

COMMIT: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
PEELED: Final = b"^{}"
"""Ends what a server lists beside an annotated tag: the commit it leads to, which cannot be asked for by itself."""

SHALLOW: Final = 1
"""Commits of history that are fetched where the server allows it."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Fetch as the command line says, and return the exit code, having said why it is not 0."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    try:
        fetch(*_parse(given))
    except Exception as error:
        failure = classify(error)
        log.error(f"tfdist-fetch: {failure.message}")
        return failure.exit_code
    return ExitCode.DONE


def _parse(arguments: Sequence[str]) -> tuple[str, str, Path]:
    if len(arguments) != 3:  # noqa: PLR2004  the three of the usage
        raise UsageError("usage: python -m tfdist_trainer.fetch REPOSITORY REVISION TARGET")
    repository, revision, target = arguments
    return repository, revision, Path(target)


def fetch(repository: str, revision: str, target: Path) -> str:
    """Put the files of `revision`, a commit, tag, branch or `HEAD`, into `target`, and return the commit.

    What is in `target` is removed before: an earlier attempt may have been interrupted.

    Raises:
        DataMissingError: the repository has no such revision, or there is no such repository.
        StorageError: it cannot be reached, or `target` cannot be written.
    """
    try:
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
    except Exception as error:  # the HTTP library has a family of its own
        if type(error).__module__.partition(".")[0] != "urllib3":
            raise
        raise StorageError(f"training.source.git: cannot reach {repository}: {one_line(str(error))}") from None
    text = commit.id.decode()
    log.event("fetched", repository=repository, revision=revision, commit=text)
    return text


def _fetch_into(repo: Repo, repository: str, revision: str) -> bytes:
    """Fetch `revision` and return the name of its object, a commit or a tag that leads to one."""
    client, path = clients.get_transport_and_path(repository)
    refs: Mapping[Any, Any] = client.get_refs(path.encode() if isinstance(path, str) else path).refs
    wanted = _named(refs, revision)
    if wanted is not None:
        _take(client, path, repo, [wanted], depth=SHALLOW)
        return wanted
    if not COMMIT.fullmatch(revision):
        raise DataMissingError(
            f"training.source.git.revision: {repository} has no branch or tag {revision!r}; a commit is given with "
            "all its 40 digits"
        )
    wanted = revision.encode()
    try:
        _take(client, path, repo, [wanted], depth=SHALLOW)
    except (GitProtocolError, HangupException, KeyError) as error:
        log.event("fetching-all", reason=one_line(str(error)) or type(error).__name__)
    if ObjectID(wanted) not in repo.object_store:
        # Not every server gives out a commit that is not the end of a branch: take all, and look there.
        everything = sorted({name for ref, name in refs.items() if not ref.endswith(PEELED)})
        _take(client, path, repo, everything)
    return wanted


def _take(client: Any, path: Any, repo: Repo, wanted: Sequence[bytes], depth: int | None = None) -> None:
    client.fetch(path, repo, determine_wants=lambda *_, **__: list(wanted), depth=depth)


def _named(refs: Mapping[Any, Any], revision: str) -> bytes | None:
    """Return the object that a branch, tag or full reference names, in Git's own order; None where none does."""
    for pattern in ("{}", "refs/{}", "refs/tags/{}", "refs/heads/{}"):
        found = refs.get(pattern.format(revision).encode())
        if found is not None:
            return bytes(found)
    return None


def _commit_of(repo: Repo, name: bytes, repository: str, revision: str) -> Commit:
    try:
        found = repo[name]
        while isinstance(found, Tag):
            found = repo[found.object[1]]
    except KeyError:
        found = None
    if not isinstance(found, Commit):
        raise DataMissingError(f"training.source.git.revision: {repository} has no commit {revision}") from None
    return found


def _clear(target: Path) -> None:
    for path in target.iterdir() if target.exists() else ():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


if __name__ == "__main__":
    sys.exit(main())
