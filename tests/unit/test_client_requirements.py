"""Packages of a job are locked when it is submitted: each wheel with its version and hash, by the pip of this Python.

No test needs a network: the wheels are in folders that the tests write.
"""

import gzip
import io
import re
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
from support.factories import manifest
from support.job_functions import cell
from support.tiny_wheels import sha256, tiny_wheel

from tfdist.client import pip_resolution, requirements_file
from tfdist.client.code_archive import CodeArchive, pack
from tfdist.client.errors import FunctionError, Invalid, RequirementsError
from tfdist.client.pip_resolution import trainer_image
from tfdist.client.requirements import Lock, lock_for, locked
from tfdist.client.submission import prepare_changed

IMAGE = trainer_image()["packages"]
WHEELS = ("--no-index", "--find-links wheels")


@pytest.fixture(autouse=True)
def code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with code and the wheels of `greeting`, which depends on `salute` and NumPy."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    tiny_wheel(tmp_path / "wheels", "greeting", requires=["salute>=1", "numpy>=1.26", "tensorflow"])
    tiny_wheel(tmp_path / "wheels", "salute", "1.2")
    (tmp_path / "train.py").write_text("import greeting\n")
    return tmp_path


def requirements(*lines: str) -> str:
    Path("requirements.txt").write_text("\n".join(lines) + "\n")
    return "requirements.txt"


def digest(name: str) -> str:
    return f"--hash=sha256:{sha256(next(Path('wheels').glob(f'{name}-*')))}"


def content(lock: Lock) -> list[str]:
    return [line for line in lock.content.decode().splitlines() if not line.startswith("#")]


def error(*lines: str, own_image: bool = False) -> str:
    with pytest.raises(RequirementsError) as rejected:
        locked(requirements(*lines), Path(), own_image=own_image)
    return str(rejected.value)


def file_in(archive: CodeArchive, name: str) -> str:
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(archive.content))) as packed:
        file = packed.extractfile(name)
        assert file is not None
        return file.read().decode()


# The lock


def test_each_wheel_has_its_version_and_hash_and_what_the_image_has_is_left_out() -> None:
    lock = locked(requirements(*WHEELS, "greeting>=0.5  # says hello"), Path())

    assert content(lock) == [*WHEELS, f"greeting==1.0 {digest('greeting')}", f"salute==1.2 {digest('salute')}"]
    assert lock.wheels == ("wheels/greeting-1.0-py3-none-any.whl", "wheels/salute-1.2-py3-none-any.whl")


def test_pip_installs_the_lock_in_a_pod(tmp_path: Path) -> None:
    # given the lock in the code
    lock = locked(requirements(*WHEELS, "greeting"), Path())
    (tmp_path / "tfdist-requirements.txt").write_bytes(lock.content)
    # when
    options = ["--quiet", "--require-hashes", "--no-deps", "--target", "packages", "-r", "tfdist-requirements.txt"]
    subprocess.run([sys.executable, "-m", "pip", "install", *options], check=True)
    # then
    assert sorted(path.name for path in Path("packages").glob("*.py")) == ["greeting.py", "salute.py"]


def test_a_folder_of_wheels_is_named_relative_to_the_code() -> None:
    # given requirements in a folder of the code
    tiny_wheel(Path("jobs/deps"), "greeting")
    Path("jobs/requirements.txt").write_text("--no-index\n-f deps\ngreeting\n")
    # when
    lock = locked("jobs/requirements.txt", Path())
    # then
    assert content(lock)[:2] == ["--no-index", "--find-links jobs/deps"]
    assert lock.wheels == ("jobs/deps/greeting-1.0-py3-none-any.whl",)


def test_nested_files_are_followed() -> None:
    Path("base.txt").write_text("salute\n")

    assert content(locked(requirements(*WHEELS, "-r base.txt"), Path())) == [*WHEELS, f"salute==1.2 {digest('salute')}"]


def test_a_file_with_all_hashes_stays_as_it_is() -> None:
    path = requirements("# locked", "salute==1.2 \\", "    --hash=sha256:00 \\", "    --hash=sha256:11")

    assert locked(path, None).content == Path(path).read_bytes()
    assert locked(path, None, own_image=True).content == Path(path).read_bytes()


def test_a_file_with_all_hashes_loses_what_the_image_has_and_keeps_it_for_an_image_of_the_users() -> None:
    numpy = f"NumPy=={IMAGE['numpy']} \\"
    path = requirements("--find-links ./wheels", numpy, "    --hash=sha256:00", "salute==1.2 --hash=sha256:11")

    assert content(locked(path, Path())) == ["--find-links wheels", "salute==1.2 --hash=sha256:11"]
    assert numpy in content(locked(path, Path(), own_image=True))


def test_a_dependency_for_another_python_than_this_one_is_locked_too(monkeypatch: pytest.MonkeyPatch) -> None:
    # given a Python of the image in which a marker applies that does not apply here
    tiny_wheel(Path("wheels"), "old", requires=["salute; python_version < '3.0'"])
    image = {"python": "2.7", "packages": dict(IMAGE)}
    monkeypatch.setattr(pip_resolution, "trainer_image", lambda: image)
    monkeypatch.setattr(pip_resolution, "_of_the_image", lambda: ["--python-version=3.11"])
    # when
    lock = locked(requirements(*WHEELS, "old"), Path())
    # then
    assert content(lock)[2:] == [f"old==1.0 {digest('old')}", f"salute==1.2 {digest('salute')}"]


# Errors


def test_a_requirement_that_conflicts_with_the_image_is_one_sentence_with_the_remedy() -> None:
    tiny_wheel(Path("wheels"), "old", requires=["numpy<2"])

    for line, fact in (("old", "old 1.0 depends on numpy<2"), ("numpy<2", "The user requested numpy<2")):
        message = error(*WHEELS, line)
        assert message == (
            f"requirements.txt: the requirements conflict: {fact}, and the trainer's image has numpy {IMAGE['numpy']}; "
            "choose other versions, or build an image of your own with these packages and name it with --image "
            "(spec.image)"
        )


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("-e .", "line 3: the pods do not have an editable installation"),
        ("--editable=src", "line 3: the pods do not have an editable installation"),
        ("git+https://h/a.git", "line 3: a requirement of a version control system has no hash"),
        ("a @ git+ssh://git@h/a.git@v1", "line 3: a requirement of a version control system has no hash"),
        ("./dist/a-1.0-py3-none-any.whl", "line 3: the pods do not have this file"),
        ("a @ file:///dist/a-1.0-py3-none-any.whl", "line 3: the pods do not have this file"),
        ("a-1.0-py3-none-any.whl", "line 3: the pods do not have this file"),
        ("-i https://me:secret@h/simple", "line 3: it has credentials"),
        ("--find-links ../other", "line 3: ../other is not in the code of the job"),
        ("absent>=3", "No matching distribution found for absent>=3 (as a wheel for the pods); give the index by"),
        ("salute==1.2 --hash=sha256:00\ngreeting", "line 4: some requirements have hashes, and this one has none"),
        (f"numpy==1.0 --hash=sha256:{'0' * 64}", f"line 3: the trainer's image has numpy {IMAGE['numpy']}"),
    ],
)
def test_what_cannot_go_with_a_job_is_named_with_its_line(line: str, message: str) -> None:
    assert message in error(*WHEELS, line)


def test_with_an_image_of_the_users_each_requirement_needs_a_hash() -> None:
    message = error("salute==1.2", own_image=True)

    assert "requirements.txt line 1: the Python and packages of an image of your own are unknown here" in message
    assert message.endswith("uv pip compile --generate-hashes writes them")


def test_a_python_without_pip_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    # given a Python that has no modules of others
    program = Path("python")
    program.write_text(f"#!/bin/sh\nexec {sys.executable} -I -S -m pip\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program.resolve()))
    # when
    message = error(*WHEELS, "salute")
    # then
    assert (
        "has no pip, which finds the versions and hashes: install it (python -m ensurepip), or give a file" in message
    )


def test_a_wheel_that_is_not_sent_with_the_code_is_named() -> None:
    # given wheels that .gitignore names
    lock = locked(requirements(*WHEELS, "salute"), Path())
    Path(".gitignore").write_text("wheels\n")
    # then
    with pytest.raises(RequirementsError, match=r"^wheels/salute-1\.2.*: the code of the job does not have"):
        lock.check(pack(Path(), generated=lock.files))


@pytest.mark.parametrize("text", ["a\n" * (requirements_file.MAX_LINES + 1), "a" * (requirements_file.MAX_BYTES + 1)])
def test_a_file_that_is_too_large_is_not_read(text: str) -> None:
    with pytest.raises(RequirementsError, match="more than 512 KiB or 10000 lines"):
        requirements_file.parse(text, "requirements.txt")


# Jobs


def job(**spec: Any) -> dict[str, Any]:
    return manifest("train", training={"script": "train.py"}, **spec)


def test_a_job_is_submitted_with_its_lock() -> None:
    # when
    given = job()
    submission = prepare_changed(given, "team", ".", {}, (), (), requirements=requirements(*WHEELS, "salute"))
    # then
    training = submission.job["spec"]["training"]
    assert training["requirements"] == "tfdist-requirements.txt"
    assert given == job(), "the caller's manifest stays as it is"


def test_a_list_of_packages_goes_with_a_script_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_FIND_LINKS", str(Path("wheels").resolve()))

    lock = lock_for(job(), ["salute>=1"], None)

    assert content(lock) == [f"salute==1.2 {digest('salute')}"]
    assert pack(Path("train.py"), generated=lock.files).files == ("tfdist-requirements.txt", "train.py")


@pytest.mark.parametrize(
    "spec",
    [
        {"image": "a:1"},
        {"worker": {"image": "a:1"}},
        {"template": {"spec": {"containers": [{"name": "tensorflow", "image": "a:1"}]}}},
    ],
)
def test_an_image_of_the_job_or_of_a_role_is_an_image_of_the_users(spec: dict[str, Any]) -> None:
    with pytest.raises(RequirementsError, match="an image of your own"):
        lock_for(job(**spec), ["salute"], None)


def test_packages_need_a_script_and_code() -> None:
    with pytest.raises(Invalid, match="neither a script nor a program uses the packages"):
        lock_for({"spec": {"image": "a:1"}}, ["salute"], None)
    with pytest.raises(Invalid, match="the code is packed already"):
        prepare_changed(job(), "team", pack(Path("train.py")), {}, (), (), requirements=["salute"])
    with pytest.raises(RequirementsError, match=r"add its folder \(--code\)"):
        prepare_changed(job(), "team", None, {}, (), (), requirements=requirements("salute==1.2 --hash=sha256:00"))


def test_packages_of_a_function_go_with_its_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_FIND_LINKS", str(Path("wheels").resolve()))
    train = cell("@tfdist.job(packages=['salute'])\ndef train(lr=1):\n    import salute\n")

    made, archive = train.prepare()

    assert made["spec"]["training"]["requirements"] == "tfdist-requirements.txt"
    assert f"salute==1.2 {digest('salute')}" in file_in(archive, "tfdist-requirements.txt")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("packages='salute'", "packages is a list, such as packages=['salute']"),
        ("packages=['a'], requirements='r.txt'", "packages and requirements are both given"),
    ],
)
def test_wrong_options_of_a_function_are_named(options: str, message: str) -> None:
    train = cell(f"@tfdist.job({options})\ndef train():\n    pass\n")

    with pytest.raises(FunctionError, match=re.escape(message)):
        train.prepare()


def test_an_option_of_pip_is_no_package() -> None:
    with pytest.raises(RequirementsError, match=r"packages: '-r x' is not a requirement, such as 'einops>=0\.8'"):
        locked(["-r x"], None)
