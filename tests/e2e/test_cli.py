"""The command `tfdist` on real pods: a folder of code becomes a job, its output and its result are seen here."""

import hashlib
import json
import pathlib
import random
import re
import signal
from collections.abc import Iterator

import pytest
from support.cluster_command import ClusterCommand
from support.e2e import Cluster
from support.polling import WAIT_SECONDS, wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

TRAIN = """
import argparse
import pathlib

import keras
import tensorflow as tf

from network.layers import new_model

options = argparse.ArgumentParser()
options.add_argument("--epochs", type=int, default=1)
strategy = tf.distribute.MultiWorkerMirroredStrategy()
keras.utils.set_random_seed(1)
x = tf.random.normal((256, 4))
with strategy.scope():
    model = new_model()
    model.compile("sgd", "mse", metrics=["mae"])
history = model.fit(x, x[:, :1], batch_size=64, epochs=options.parse_args().epochs, verbose=0)
print(f"loss {history.history['loss'][-1]:.6f} of", pathlib.Path("network/classes.txt").read_text(), flush=True)
"""
MODEL = "import keras\n\n\ndef new_model():\n    return keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])\n"
SMALL = ("--set", "resources.requests.cpu=100m", "--set", "resources.requests.memory=600Mi")


@pytest.fixture
def user(cluster: Cluster, tmp_path: pathlib.Path) -> Iterator[ClusterCommand]:
    (tmp_path / "network").mkdir()
    files = {
        "train.py": TRAIN,
        "network/__init__.py": "",
        "network/layers.py": MODEL,
        "network/classes.txt": "three classes",
        "fail.py": "raise SystemExit('no such column: price')\n",
        "wait.py": "import time\n\nprint('ready', flush=True)\ntime.sleep(3600)\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    yield ClusterCommand(cluster, tmp_path)
    for name in ("cli-keras", "cli-large", "cli-fails", "cli-waits"):
        cluster.delete_job(name)


def config_maps(cluster: Cluster, job: str) -> list[str]:
    found = cluster.kubectl.get("configmaps", f"--namespace={cluster.namespace}")
    return [item["metadata"]["name"] for item in (found or {})["items"] if item["metadata"]["name"].startswith(job)]


def test_a_folder_with_a_keras_script_is_run_and_its_output_result_and_code_are_those_of_the_job(
    cluster: Cluster, user: ClusterCommand
) -> None:
    # When
    command = ("--", "python", "train.py", "--epochs", "3")
    ended = user.run("run", "--name", "cli-keras", "--workers", "2", "--code", ".", *SMALL, *command)

    # Then
    assert ended.code == 0, ended
    losses = re.findall(r"^worker-([01]) +\| loss (\S+) of three classes", ended.output, re.MULTILINE)
    assert [replica for replica, _ in sorted(losses)] == ["0", "1"], ended
    assert len({loss for _, loss in losses}) == 1
    assert "Succeeded" in ended.output + ended.errors

    # And the job can be listed and described, with what it has used
    assert user.run("get", "cli-keras", "-o", "name").output == "tfdistjob.tfdist.dev/cli-keras\n"
    assert re.search(r"^cli-keras +Succeeded", user.run("list").output, re.MULTILINE)
    assert "Phase:           Succeeded" in user.run("describe", "cli-keras").output
    cost = json.loads(user.run("cost", "cli-keras", "-o", "json").output)
    assert 0 < cost["total"]["cpuHours"] < 1, cost

    # And its log read again, and all of it deleted
    assert "three classes" in user.run("logs", "cli-keras", "worker-1").output
    assert config_maps(cluster, "cli-keras")
    assert user.run("delete", "cli-keras").output == "tfdistjob/cli-keras deleted\n"
    wait_for("its ConfigMap to be deleted", lambda: not config_maps(cluster, "cli-keras"))


@pytest.mark.long
def test_a_folder_of_5_mb_is_sent_in_parts_and_is_whole_in_each_pod(
    cluster: Cluster, user: ClusterCommand, tmp_path: pathlib.Path
) -> None:
    # Given code with a file that cannot be compressed
    content = random.Random(0).randbytes(5_000_000)  # noqa: S311  not for security
    (tmp_path / "weights.bin").write_bytes(content)
    (tmp_path / "large.py").write_text(
        "import hashlib, pathlib\nprint('sha256', hashlib.sha256(pathlib.Path('weights.bin').read_bytes()).hexdigest())"
    )

    # When
    ended = user.run("run", "--name", "cli-large", "--workers", "2", "--code", ".", *SMALL, "--", "python", "large.py")

    # Then
    assert ended.code == 0, ended
    hashes = re.findall(r"^worker-([01]) +\| sha256 (\S+)", ended.output, re.MULTILINE)
    expected = hashlib.sha256(content).hexdigest()
    assert sorted(hashes) == [("0", expected), ("1", expected)], ended
    assert len(config_maps(cluster, "cli-large-code")) == 6

    # And all parts are deleted with the job
    user.run("delete", "cli-large")
    wait_for("its ConfigMaps to be deleted", lambda: not config_maps(cluster, "cli-large-code"))


def test_a_script_that_fails_gives_its_message_its_remedy_and_its_exit_code(user: ClusterCommand) -> None:
    limit = ("--set", "runPolicy.backoffLimit=0")
    ended = user.run("run", "--name", "cli-fails", *SMALL, *limit, "--", "python", "fail.py")

    assert ended.code == 1, ended
    assert "no such column: price" in ended.output
    described = user.run("describe", "cli-fails").output
    assert "no such column: price" in described
    assert "Remedy:" in described


def test_ctrl_c_detaches_from_a_job_that_goes_on_until_it_is_suspended(cluster: Cluster, user: ClusterCommand) -> None:
    # Given a job that is followed
    process = user.start("run", "--name", "cli-waits", *SMALL, "--", "python", "wait.py")
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if line.endswith("| ready\n"):
            break

    # When its user presses Ctrl-C
    process.send_signal(signal.SIGINT)
    rest, _ = process.communicate(timeout=WAIT_SECONDS)

    # Then the job runs, and the last line has the commands for it
    assert process.returncode == 130, "".join(lines) + rest
    assert "tfdist attach cli-waits" in rest.splitlines()[-1]
    assert cluster.job("cli-waits")["status"]["phase"] == "Running"
    assert re.search(r"^cli-waits +Running", user.run("top").output, re.MULTILINE)
    assert "Started" in user.run("events", "cli-waits").output
    assert user.run("suspend", "cli-waits", "--wait").code == 0
    wait_for("its pods to be deleted", lambda: not cluster.pods("cli-waits"))
