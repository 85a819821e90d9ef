"""`training.source.git`: a revision of a repository, over HTTP as in a pod, becomes files in a folder."""

import threading
from collections.abc import Iterator
from pathlib import Path
from wsgiref.simple_server import WSGIRequestHandler, make_server

import pytest
from dulwich import porcelain
from dulwich.repo import Repo
from dulwich.server import BackendRepo, DictBackend
from dulwich.web import make_wsgi_chain

from tfdist.contract import ExitCode
from tfdist_trainer.fetch import main

AUTHOR = b"A <a@example.org>"


class Repository:
    """Two commits on branch `main`, a tag on the first, served over HTTP."""

    def __init__(self, folder: Path, url: str) -> None:
        self.url = url
        self.repo = Repo.init(str(folder), mkdir=True, default_branch=b"main")
        self.commits = [self.commit(folder, text) for text in ("first", "second")]
        porcelain.tag_create(self.repo, b"v1", AUTHOR, b"one", annotated=True, objectish=self.commits[0])

    def commit(self, folder: Path, text: str) -> str:
        (folder / "package").mkdir(exist_ok=True)
        (folder / "package" / "mine.py").write_text(text)
        porcelain.add(self.repo, [str(folder / "package" / "mine.py")])
        made: bytes = porcelain.commit(self.repo, text.encode(), author=AUTHOR, committer=AUTHOR)
        return made.decode()


class Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the name in http.server
        pass


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[Repository]:
    repositories: dict[str, BackendRepo] = {}
    server = make_server("127.0.0.1", 0, make_wsgi_chain(DictBackend(repositories)), handler_class=Quiet)
    url = f"http://127.0.0.1:{server.server_port}/code"
    made = Repository(tmp_path / "origin", url)
    repositories["/code"] = made.repo
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield made
    server.shutdown()
    thread.join()
    server.server_close()
    made.repo.close()


@pytest.mark.parametrize(
    ("revision", "text"),
    [
        ("HEAD", "second"),
        ("main", "second"),
        ("refs/heads/main", "second"),
        ("v1", "first"),
        (0, "first"),
        (1, "second"),
    ],
)
def test_a_revision_becomes_files(
    repository: Repository, revision: str | int, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "source"
    target.mkdir()
    (target / "left by an interrupted attempt").write_text("x")
    name = repository.commits[revision] if isinstance(revision, int) else revision
    assert main([repository.url, name, str(target)]) == ExitCode.DONE, capsys.readouterr().err
    assert (target / "package" / "mine.py").read_text() == text
    assert sorted(path.name for path in target.iterdir()) == [".git", "package"]
    assert f"commit={repository.commits[text == 'second']}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("url", "revision", "code", "message"),
    [
        ("{url}", "nothing", ExitCode.DATA_MISSING, "has no branch or tag 'nothing'"),
        ("{url}", "0" * 40, ExitCode.DATA_MISSING, f"has no commit {'0' * 40}"),
        ("{url}/other", "HEAD", ExitCode.DATA_MISSING, "there is no repository at"),
        ("http://127.0.0.1:9/code", "HEAD", ExitCode.STORAGE, "cannot fetch http://127.0.0.1:9/code"),
    ],
)
def test_a_failed_fetch_is_reported_in_one_line(
    repository: Repository,
    url: str,
    revision: str,
    code: ExitCode,
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([url.format(url=repository.url), revision, str(tmp_path / "source")]) == code
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("path", ["code", "code/other"])
def test_credentials_of_a_url_are_in_no_line_of_the_log(
    repository: Repository, path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # given a URL with a token, which validation rejects
    address = repository.url.removeprefix("http://").removesuffix("code")

    main([f"http://ghp_0123456789:x@{address}{path}", "HEAD", str(tmp_path / "source")])

    output = "".join(capsys.readouterr())
    assert "ghp_0123456789" not in output
    assert f"http://***@{address}{path}" in output


def test_a_wrong_command_line_is_a_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["only-a-repository"]) == ExitCode.USAGE
    assert "REPOSITORY REVISION TARGET" in capsys.readouterr().err
