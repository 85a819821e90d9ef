"""`training.requirements`: the packages of a job are installed from wheels with known hashes, as in a pod."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest
from support.tiny_wheels import sha256, tiny_wheel

from tfdist.contract import ExitCode
from tfdist_trainer.install import main


@pytest.fixture
def code(tmp_path: Path) -> Path:
    """A folder of code with a wheel of `greeting` in a folder of wheels."""
    tiny_wheel(tmp_path / "code" / "wheels", "greeting")
    return tmp_path / "code"


def requirements(code: Path, *lines: str) -> Path:
    path = code / "requirements.txt"
    path.write_text("\n".join(lines) + "\n")
    return path


def locked(code: Path) -> Path:
    digest = sha256(next((code / "wheels").iterdir()))
    return requirements(code, "--no-index", "--find-links wheels", f"greeting==1.0 --hash=sha256:{digest}")


def version_in(target: Path) -> str:
    program = "import greeting; print(greeting.VERSION)"
    return subprocess.check_output([sys.executable, "-c", program], env={"PYTHONPATH": str(target)}, text=True).strip()


def error_of(path: Path, target: Path, capfd: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Return the exit code and the last line, which becomes the message of the init container."""
    code = main([str(path), str(target)])
    return code, capfd.readouterr().err.splitlines()[-1]


def test_wheels_of_a_folder_in_the_code_are_installed(
    code: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # given a working directory that is not the folder of the file, as in a pod
    monkeypatch.chdir(tmp_path)
    # when
    assert main([str(locked(code)), str(tmp_path / "packages")]) == ExitCode.DONE
    # then
    assert version_in(tmp_path / "packages") == "1.0"


def test_what_an_interrupted_attempt_has_left_is_replaced(code: Path, tmp_path: Path) -> None:
    # given half of an earlier installation
    target = tmp_path / "packages"
    (target / "greeting-1.0.dist-info").mkdir(parents=True)
    (target / "greeting.py").write_text("VERSI")
    # when
    assert main([str(locked(code)), str(target)]) == ExitCode.DONE
    # then
    assert version_in(target) == "1.0"
    assert (target / "greeting-1.0.dist-info" / "METADATA").is_file()


def test_a_file_with_another_hash_is_not_installed(
    code: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    # given a wheel that was replaced after the requirements were locked
    path = locked(code)
    tiny_wheel(code / "wheels", "greeting", requires=["other"])
    # when
    exit_code, message = error_of(path, tmp_path / "packages", capfd)
    # then
    assert exit_code == ExitCode.CONFIGURATION
    assert "greeting" in message
    assert "has another hash than requirements.txt says" in message
    assert not list((tmp_path / "packages").glob("*"))


def test_a_requirement_without_a_hash_is_an_error(
    code: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = requirements(code, "--no-index", "--find-links wheels", "greeting==1.0")

    exit_code, message = error_of(path, tmp_path / "packages", capfd)

    assert exit_code == ExitCode.CONFIGURATION
    assert "lacks its version or hash: tfdist submit --requirements adds them" in message


def test_an_index_that_cannot_be_reached_is_named_with_the_remedies(
    code: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # given an index on a port that nobody listens on
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        index = f"http://127.0.0.1:{unused.getsockname()[1]}/simple"
        monkeypatch.setenv("PIP_INDEX_URL", index)
        path = requirements(code, f"greeting==1.0 --hash=sha256:{'0' * 64}")
        # when
        exit_code, message = error_of(path, tmp_path / "packages", capfd)
    # then
    assert exit_code == ExitCode.STORAGE, "another attempt may reach it"
    assert index in message
    assert "the pod has no network to it; set PIP_INDEX_URL in env" in message
    assert "--no-index and --find-links FOLDER in requirements.txt" in message


def test_a_wheel_that_is_not_there_is_named(code: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = requirements(code, "--no-index", "--find-links wheels", f"greeting==2.0 --hash=sha256:{'0' * 64}")

    exit_code, message = error_of(path, tmp_path / "packages", capfd)

    assert exit_code == ExitCode.CONFIGURATION
    assert "there is no wheel of greeting==2.0 for Python 3" in message


def test_a_file_that_is_not_in_the_code_is_named(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    exit_code, message = error_of(tmp_path / "requirements.txt", tmp_path / "packages", capfd)

    assert exit_code == ExitCode.DATA_MISSING
    assert "the code has no file requirements.txt" in message
