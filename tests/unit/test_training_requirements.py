"""`training.requirements`: an init container installs the packages of a job, on a cluster and on this machine."""

from typing import Any, Final

import pytest
from support.factories import manifest
from support.local_plans import STATE, prepared

from tfdist import validation
from tfdist.render.gang import gangs
from tfdist.render.installation import Installation
from tfdist.render.pod import Attempt, pod

Json = dict[str, Any]

CODE: Final = "/opt/tfdist/source"
PACKAGES: Final = "/opt/tfdist/packages"
TRAINING: Final[Json] = {
    "script": "train.py",
    "source": {"archive": {"name": "my-code"}},
    "requirements": "jobs/requirements.txt",
}
ARCHIVE: Final = {"my-code": {"binaryData": {"code.tar.gz": ""}}}


def pods(**spec: Any) -> list[Json]:
    """Return the specification of the pod of each replica of the first gang."""
    job = validation.parse(manifest(**({"training": TRAINING} | spec)))
    gang = gangs(job)[0]
    return [pod(job, gang, member, Attempt(0, 0), Installation("trainer:1"))["spec"] for member in gang.members]


def install_of(spec: Json) -> Json:
    """Return the init container that installs the packages, which comes after the one that fetches the code."""
    fetch, install = spec["initContainers"]
    assert (fetch["name"], install["name"]) == ("tfdist-fetch", "tfdist-install")
    return dict(install)


def test_an_init_container_installs_the_packages_after_the_code_was_unpacked() -> None:
    # when
    spec = pods()[0]
    # then
    install = install_of(spec)
    command = ["python", "-m", "tfdist_trainer.install", f"{CODE}/jobs/requirements.txt", PACKAGES]
    assert (install["image"], install["command"]) == ("trainer:1", command)
    assert install["securityContext"] == spec["initContainers"][0]["securityContext"]
    mounts = {mount["mountPath"]: mount for mount in install["volumeMounts"]}
    assert mounts[CODE]["readOnly"]
    assert mounts[PACKAGES] == {"name": "tfdist-packages", "mountPath": PACKAGES}
    assert mounts["/tmp"]["name"] in {volume["name"] for volume in spec["volumes"]}, "pip unpacks wheels there"
    assert {"name": "tfdist-packages", "emptyDir": {}} in spec["volumes"]


def test_the_packages_are_behind_the_code_and_before_the_python_path_of_the_job() -> None:
    own = [{"name": "PYTHONPATH", "value": "/shared"}]
    for env, expected in (([], f"{CODE}:{PACKAGES}"), (own, f"{CODE}:{PACKAGES}:/shared")):
        (main,) = pods(env=env)[0]["containers"]
        assert [each["value"] for each in main["env"] if each["name"] == "PYTHONPATH"] == [expected]
        assert {"name": "tfdist-packages", "mountPath": PACKAGES, "readOnly": True} in main["volumeMounts"]


def test_the_path_is_relative_to_the_directory_of_the_source() -> None:
    git = {"repository": "https://h/a.git", "directory": "src"}
    install = install_of(pods(training=TRAINING | {"source": {"git": git}})[0])
    assert install["command"][-2] == f"{CODE}/src/jobs/requirements.txt"


def test_an_image_of_the_users_installs_the_packages_for_its_own_python() -> None:
    # given
    worker = {"replicas": 1, "image": "team/train:1", "imagePullPolicy": "Never"}
    # when
    chief, other = (install_of(spec) for spec in pods(chief={}, worker=worker))
    # then
    assert chief["image"] == "trainer:1"
    assert (other["image"], other["imagePullPolicy"]) == ("team/train:1", "Never")
    assert other["command"][:4] == ["python", "-m", "pip", "install"]
    assert {"--require-hashes", "--no-deps", "--only-binary=:all:", "--no-cache-dir"} <= set(other["command"])
    assert "runAsNonRoot" not in other["securityContext"], "most images of others run as root"


def test_the_init_container_gets_the_settings_of_pip_and_the_proxies() -> None:
    # given
    secret = {"secretKeyRef": {"name": "index", "key": "password"}}
    env = [
        {"name": "PASSWORD", "valueFrom": secret},
        {"name": "PIP_INDEX_URL", "value": "https://me:$(PASSWORD)@h/simple"},
        {"name": "https_proxy", "value": "http://proxy:3128"},
        {"name": "TOKEN", "value": "x"},
    ]
    # when
    install = install_of(pods(env=env)[0])
    # then
    resolver, *settings = install["env"]
    assert settings == env[:3], "and no other variables"
    assert resolver == {"name": "RES_OPTIONS", "value": "timeout:2 attempts:1"}, "an error comes within a minute"


@pytest.mark.parametrize("training", [{"requirements": None}, {"script": "/app/train.py", "source": None}])
def test_without_a_file_nothing_is_installed(training: Json) -> None:
    given = {key: value for key, value in (TRAINING | training).items() if value is not None}
    if "source" not in given:
        del given["requirements"]
    assert "tfdist-install" not in str(pods(training=given))


def test_on_this_machine_the_packages_are_installed_once_after_the_code_was_unpacked() -> None:
    # when
    made = prepared(manifest(training=TRAINING), config_maps=ARCHIVE)
    # then
    fetch, install = made.preparations
    assert (fetch.name, install.name) == ("fetch", "install")
    assert install.command[-2:] == (f"{STATE}/source/jobs/requirements.txt", f"{STATE}/packages")
    emptied = {folder.path for folder in install.folders if folder.empty}
    assert emptied == {STATE / "packages"}, "and not the code"
    for replica in made.replicas.values():
        assert replica.environment["PYTHONPATH"] == f"{STATE}/source:{STATE}/packages"
    assert made.process_names[-2:] == ["fetch", "install"]
