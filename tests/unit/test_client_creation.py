"""Jobs with code whose submission loses an answer, or is killed: no job is without its code, and nothing remains."""

import base64
import hashlib
import io
import json
import pathlib
import random
import re
import signal
from types import SimpleNamespace
from typing import Any

import pytest
import urllib3
import yaml
from support.stored_cluster import JOBS, SWEEPS, TEAM, StoredCluster, connected
from support.stored_jobs import at

from tfdist import Client
from tfdist.cli.main import main
from tfdist.client.code_archive import pack
from tfdist.client.creation import CODE_OF, SUBMISSION
from tfdist.client.errors import AlreadyExists, ClientError, NoCluster
from tfdist.client.submission import prepare
from tfdist.render.source import part_names

Json = dict[str, Any]

JOB: Json = {"metadata": {"name": "mine"}, "spec": {"training": {"script": "train.py"}, "worker": {"replicas": 1}}}
CONFIG_MAPS = f"{TEAM}/configmaps"
CHANGES = frozenset({"POST", "PATCH", "DELETE"})
RANDOM = random.Random(0).randbytes(2_000_000)  # noqa: S311  bytes that cannot be compressed


class Killed(BaseException):
    """The end of the process by SIGKILL: no handler may do anything any more."""


class Unreliable(StoredCluster):
    """Fails from the `first` to the `last` changing request, which is executed before if `executed`."""

    def __init__(self, error: BaseException, first: int, last: int, *, executed: bool) -> None:
        super().__init__()
        self.error, self.first, self.last, self.executed = error, first, last, executed
        self.changes = 0
        self.asked: list[str] = []

    def call_api(self, method: str, url: str, *given: Any, **options: Any) -> SimpleNamespace:
        self.asked.append(f"{method} {url}")
        self.changes += method in CHANGES
        fails = self.first <= self.changes <= self.last and (method in CHANGES or self.changes > self.first)
        if not fails or (self.executed and self.changes == self.first):
            answer = super().call_api(method, url, *given, **options)
        if fails:
            raise self.error
        return answer

    def recover(self) -> None:
        """Answer all requests from now on; everything that exists is two hours old."""
        self.first = self.last = 0
        for stored in self.objects.values():
            stored["metadata"]["creationTimestamp"] = at(7200)

    @property
    def jobs(self) -> dict[str, Json]:
        return {path.rpartition("/")[2]: each for path, each in self.objects.items() if path.startswith(JOBS)}

    @property
    def code(self) -> dict[str, Json]:
        return {path.rpartition("/")[2]: each for path, each in self.objects.items() if path.startswith(CONFIG_MAPS)}

    @property
    def jobs_without_code(self) -> list[str]:
        used = {name: part_names(job["spec"]["training"]["source"]["archive"]) for name, job in self.jobs.items()}
        return [name for name, parts in used.items() if not self.code.keys() >= set(parts)]

    @property
    def code_without_owner(self) -> list[str]:
        owners = {name: each["metadata"].get("ownerReferences") for name, each in self.code.items()}
        return [name for name, each in owners.items() if not each or each[0]["name"] not in self.jobs]


class Restricted(StoredCluster):
    """Answers 403 to some requests for ConfigMaps."""

    def __init__(self, *methods: str) -> None:
        super().__init__()
        self.methods = set(methods)

    def call_api(self, method: str, url: str, *given: Any, **options: Any) -> SimpleNamespace:
        rejected = CONFIG_MAPS in url and method in self.methods
        text = json.dumps({"message": f"configmaps is forbidden: {method}", "reason": "Forbidden"})
        if rejected:
            response = urllib3.HTTPResponse(io.BytesIO(text.encode()), status=403, preload_content=False)
            return SimpleNamespace(response=response)
        return super().call_api(method, url, *given, **options)


LOST = urllib3.exceptions.ProtocolError("Connection aborted")
NO_CONNECTION = urllib3.exceptions.NewConnectionError(None, "Connection rejected")  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pathlib.Path("src").mkdir()
    pathlib.Path("src/train.py").write_text("print()")


def submit(name: str = "mine") -> None:
    Client().submit(JOB | {"metadata": {"name": name}}, code="src")


def make_large() -> None:
    """Add a file with which the code has three parts."""
    pathlib.Path("src/weights.bin").write_bytes(RANDOM)


SMALL_OR_LARGE = pytest.mark.parametrize(
    ("parts", "number"), [*((1, number) for number in range(1, 4)), *((3, number) for number in range(1, 8))]
)
"""The parts of the code, and the number of a request: one creates each part, one the job, one makes it each owner."""


@SMALL_OR_LARGE
@pytest.mark.parametrize("executed", [True, False])
def test_a_submission_that_loses_one_answer_succeeds(parts: int, number: int, executed: bool) -> None:
    if parts > 1:
        make_large()
    cluster = Unreliable(LOST, number, number, executed=executed)

    with connected(cluster):
        submit()

    assert list(cluster.jobs) == ["mine"]
    assert len(cluster.code) == parts
    assert (cluster.jobs_without_code, cluster.code_without_owner) == ([], [])


@pytest.mark.parametrize("error", [LOST, NO_CONNECTION, Killed()])
@SMALL_OR_LARGE
@pytest.mark.parametrize("executed", [True, False])
def test_what_a_cut_submission_leaves_is_removed_by_the_next_one(
    error: BaseException, parts: int, number: int, executed: bool
) -> None:
    # given a client that is killed, or loses the API server, at one of its requests
    if parts > 1:
        make_large()
    cluster = Unreliable(error, number, 1000, executed=executed)
    with connected(cluster), pytest.raises((ClientError, Killed)):
        submit()
    assert cluster.jobs_without_code == []
    # when
    cluster.recover()
    pathlib.Path(".kube/config").unlink()
    pathlib.Path(".kube").rmdir()
    with connected(cluster):
        submit("next")
    # then
    assert (cluster.jobs_without_code, cluster.code_without_owner) == ([], [])
    assert not any(CODE_OF in (each["metadata"].get("labels") or {}) for each in cluster.code.values())


def test_code_of_several_parts_is_cut_and_named_in_the_job() -> None:
    make_large()
    cluster = StoredCluster()

    with connected(cluster):
        submit()

    source = cluster.objects[f"{JOBS}/mine"]["spec"]["training"]["source"]["archive"]
    name = source["name"]
    paths = [f"{CONFIG_MAPS}/{part}" for part in (name, f"{name}-1", f"{name}-2")]
    contents = [base64.b64decode(cluster.objects[path]["binaryData"]["code.tar.gz"]) for path in paths]
    assert all(cluster.objects[path]["immutable"] for path in paths)
    assert max(map(len, contents)) < 1 << 20
    assert (source["parts"], source["sha256"]) == (3, hashlib.sha256(b"".join(contents)).hexdigest())
    assert len(json.dumps(cluster.objects[f"{JOBS}/mine"])) < 2000, "the code is not in the job"


@pytest.mark.parametrize("number", range(1, 8))
def test_after_ctrl_c_within_its_creation_nothing_of_large_code_remains(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # given a user who presses Ctrl-C while a part or the job is created, or a part gets its owner
    make_large()
    cluster = Unreliable(LOST, 0, 0, executed=True)
    answer = cluster.call_api

    def interrupt(*request: Any, **options: Any) -> SimpleNamespace:
        answered = answer(*request, **options)
        if cluster.changes == number and request[0] in CHANGES:
            signal.raise_signal(signal.SIGINT)
        return answered

    monkeypatch.setattr(cluster, "call_api", interrupt)
    # when
    with connected(cluster), pytest.raises(KeyboardInterrupt):
        submit()
    # then
    assert cluster.objects == {}


def test_a_sweep_is_the_owner_of_its_code() -> None:
    make_large()
    cluster = StoredCluster()
    sweep = {"kind": "TFDistSweep", "apiVersion": "tfdist.dev/v1alpha1", "metadata": {"name": "rates"}}
    spec = {"template": {"spec": JOB["spec"]}}

    with connected(cluster):
        client = Client()
        client.sweeps.create(prepare(sweep | {"spec": spec}, client.namespace, pack(pathlib.Path("src"))))

    stored = cluster.objects[f"{SWEEPS}/rates"]
    names = part_names(stored["spec"]["template"]["spec"]["training"]["source"]["archive"])
    owners = [cluster.objects[f"{CONFIG_MAPS}/{name}"]["metadata"]["ownerReferences"] for name in names]
    owner = {"apiVersion": "tfdist.dev/v1alpha1", "kind": "TFDistSweep", "name": "rates"}
    assert owners == [[owner | {"uid": stored["metadata"]["uid"]}]] * 3


@pytest.mark.parametrize("sweep_exists", [True, False])
def test_code_of_a_sweep_whose_submission_was_killed_gets_its_owner_or_is_removed(sweep_exists: bool) -> None:
    # given a job with the name of the sweep, which does not use the code
    cluster = StoredCluster()
    labels = {CODE_OF: "sweep.rates"}
    metadata: Json = {"uid": "u", "creationTimestamp": at(7200), "labels": labels}
    cluster.put(f"{CONFIG_MAPS}/rates-code-1", metadata=metadata)
    cluster.put(f"{JOBS}/rates", metadata={"uid": "other"}, spec={})
    if sweep_exists:
        training = {"source": {"archive": {"name": "rates-code-1"}}}
        spec = {"template": {"spec": {"training": training}}}
        cluster.put(f"{SWEEPS}/rates", kind="TFDistSweep", metadata={"uid": "s"}, spec=spec)
    # when
    with connected(cluster):
        submit()
    # then
    code = cluster.objects.get(f"{CONFIG_MAPS}/rates-code-1")
    assert (code is not None) == sweep_exists
    if code is not None:
        assert code["metadata"]["ownerReferences"][0]["kind"] == "TFDistSweep"


def test_an_error_names_what_may_exist_and_how_to_remove_it() -> None:
    cluster = Unreliable(LOST, 2, 1000, executed=True)

    with connected(cluster), pytest.raises(NoCluster) as error:
        submit()

    (code,) = cluster.code
    assert str(error.value).endswith(
        f"; these may exist now; remove them by kubectl delete -n team tfdistjob/mine configmap/{code}"
    )
    assert "DELETE" not in {each.split()[0] for each in cluster.asked}


def test_without_a_connection_nothing_may_exist() -> None:
    with connected(Unreliable(NO_CONNECTION, 1, 1000, executed=False)), pytest.raises(NoCluster) as error:
        submit()

    assert "may exist" not in str(error.value)


def test_config_maps_of_a_job_whose_answer_is_lost_remain() -> None:
    job = JOB | {"spec": {"training": {"script": "a.py", "source": {"configMap": {"name": "own"}}}, "worker": {}}}
    cluster = Unreliable(LOST, 2, 2, executed=True)

    with connected(cluster):
        Client().submit(job, config_maps=[{"metadata": {"name": "own"}, "data": {"a.py": "1"}}])

    assert (list(cluster.jobs), list(cluster.code)) == (["mine"], ["own"])


def test_the_job_of_another_submission_is_not_taken_for_an_own_one() -> None:
    cluster = Unreliable(LOST, 0, 0, executed=True)

    with connected(cluster):
        submit()
        copied = cluster.jobs["mine"]
        assert SUBMISSION in copied["metadata"]["annotations"]
        with pytest.raises(AlreadyExists):
            Client().submit(copied, code="src")

    assert (cluster.jobs_without_code, cluster.code_without_owner) == ([], [])


@pytest.mark.parametrize("change", ["young", "owned", "of the user"])
def test_other_config_maps_are_not_removed(change: str) -> None:
    # given one that is that of a submission under way, has an owner, or is no code
    cluster = Unreliable(LOST, 0, 0, executed=True)
    metadata: Json = {"uid": "u", "creationTimestamp": at(7200), "labels": {CODE_OF: "other"}}
    changes: dict[str, Json] = {
        "young": {"creationTimestamp": at(60)},
        "owned": {"ownerReferences": [{"name": "other"}]},
        "of the user": {"labels": {}},
    }
    cluster.put(f"{CONFIG_MAPS}/other-code-1", metadata=metadata | changes[change])
    # when
    with connected(cluster):
        submit()
    # then
    assert "other-code-1" in cluster.code


@pytest.mark.parametrize("methods", [("PATCH",), ("PATCH", "DELETE"), ("PATCH", "DELETE", "GET")])
def test_a_user_who_may_not_change_config_maps_gets_a_job_and_a_warning(methods: tuple[str, ...]) -> None:
    # given
    cluster = Restricted(*methods)
    # when
    with (
        connected(cluster),
        pytest.warns(UserWarning, match=r'job "mine" is created, but configmap "mine-code-.*" .*PATCH'),
    ):
        submit()
    # then
    assert f"{JOBS}/mine" in cluster.objects
    (code,) = (path for path in cluster.objects if path.startswith(CONFIG_MAPS))
    assert cluster.objects[code]["metadata"]["labels"] == {CODE_OF: "mine"}


def test_one_warning_names_all_parts_that_remain() -> None:
    make_large()

    with connected(Restricted("PATCH")), pytest.warns(UserWarning, match="is not deleted with it") as caught:
        submit()

    (warning,) = caught
    assert 'configmap "mine-code-' in str(warning.message)
    assert '" and 2 more with its code is not deleted' in str(warning.message)
    assert len(re.findall("configmap/mine-code-[0-9a-f]{8}", str(warning.message))) == 3


@pytest.mark.parametrize("job_exists", [True, False])
def test_code_that_such_a_user_has_left_does_not_keep_another_one_from_tidying(job_exists: bool) -> None:
    # given two such jobs of long ago, whose code a submission of the same user could not give an owner either
    cluster = Restricted("PATCH", "DELETE")
    with connected(cluster):
        for name in ("mine", "second"):
            with pytest.warns(UserWarning, match="is not deleted with it"):
                submit(name)
    for path in [*cluster.objects]:
        cluster.objects[path]["metadata"]["creationTimestamp"] = at(7200)
        if path.startswith(JOBS) and not job_exists:
            del cluster.objects[path]
    # when
    cluster.methods.clear()
    pathlib.Path(".kube/config").unlink()
    pathlib.Path(".kube").rmdir()
    with connected(cluster):
        submit("next")
    # then
    code = [each["metadata"] for path, each in cluster.objects.items() if path.startswith(CONFIG_MAPS)]
    assert len(code) == (3 if job_exists else 1)
    assert all(each["ownerReferences"] for each in code)


def test_the_command_writes_such_a_warning_as_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    pathlib.Path("job.yaml").write_text(yaml.safe_dump({"apiVersion": "tfdist.dev/v1", "kind": "TFDistJob"} | JOB))

    with connected(Restricted("PATCH")):
        code = main(["submit", "job.yaml", "--code", "src"])

    output = capsys.readouterr()
    assert (code, output.out) == (0, "tfdistjob/mine created\n")
    assert 'warning: job "mine" is created, but configmap "mine-code-' in output.err


def test_the_python_client_warns_of_files_that_may_contain_credentials() -> None:
    pathlib.Path("src/.env").write_text("TOKEN=1")
    cluster = StoredCluster()

    with connected(cluster):
        with pytest.warns(UserWarning, match="may contain credentials: .env"):
            submit("one")
        Client().submit(JOB | {"metadata": {"name": "two"}}, code="src", include=[".env"])
