"""Settings of the controller: each is checked once at the start, and a wrong one ends it with a sentence."""

import base64
import json
import pathlib
from typing import Any

import kopf
import pytest

from tfdist_operator import config
from tfdist_operator.kube import connection


def test_every_wrong_setting_is_named_at_once() -> None:
    with pytest.raises(SystemExit) as error:
        config.from_environment({"TFDIST_PORT": "http", "TFDIST_WORKERS": "0"})
    text = str(error.value)
    assert "TFDIST_TRAINER_IMAGE" in text
    assert "TFDIST_PORT='http'" in text
    assert "TFDIST_WORKERS='0'" in text


@pytest.mark.parametrize("domain", ["", "cluster.local", "example"])
def test_the_cluster_domain_is_part_of_the_addresses_of_replicas(domain: str) -> None:
    settings = config.from_environment({"TFDIST_TRAINER_IMAGE": "x", "TFDIST_CLUSTER_DOMAIN": domain})
    assert settings.installation.cluster_domain == domain


@pytest.mark.parametrize(
    ("name", "value", "remedy"),
    [
        ("TFDIST_WORKERS", "0.5", "must be a whole number from 1 to 1000"),
        ("TFDIST_WORKERS", "-1", "must be a whole number from 1 to 1000"),
        ("TFDIST_WORKERS", "nan", "must be a whole number from 1 to 1000"),
        ("TFDIST_PORT", "70000", "must be a whole number from 1 to 65535"),
        ("TFDIST_PORT", "inf", "must be a whole number from 1 to 65535"),
        ("TFDIST_PROGRESS_POLL_SECONDS", "nan", "must be a positive number"),
        ("TFDIST_PROGRESS_WRITE_SECONDS", "inf", "must be a positive number"),
        ("TFDIST_RESYNC_SECONDS", "0", "must be a positive number"),
        ("TFDIST_CLUSTER_DOMAIN", ".cluster.local", "must be a DNS domain, such as cluster.local"),
        ("TFDIST_CLUSTER_DOMAIN", "cluster_local", "must be a DNS domain, such as cluster.local"),
        ("TFDIST_LOG_LEVEL", "LOUD", "must be DEBUG, INFO, WARNING or ERROR"),
    ],
)
def test_a_setting_that_cannot_be_meant_is_rejected_with_its_remedy(name: str, value: str, remedy: str) -> None:
    with pytest.raises(SystemExit) as error:
        config.from_environment({"TFDIST_TRAINER_IMAGE": "x", name: value})
    assert f"{name}={value!r}: {remedy}" in str(error.value)


def test_whole_numbers_and_a_log_level_in_small_letters_are_taken() -> None:
    given = {"TFDIST_TRAINER_IMAGE": "x", "TFDIST_WORKERS": "3", "TFDIST_LOG_LEVEL": "debug"}
    found = config.from_environment(given)
    assert (found.workers, found.log_level) == (3, "DEBUG")


def connection_with(**certificates: Any) -> kopf.ConnectionInfo:
    return kopf.ConnectionInfo(server="https://10.96.0.1:443", **certificates)


def test_the_ca_of_the_api_server_distinguishes_clusters(tmp_path: pathlib.Path) -> None:
    """Given the CA of a cluster as a file and as text, that of another one, and a connection without a CA."""
    (tmp_path / "ca.crt").write_text("first\n")
    of_file = connection.cluster_id(connection_with(ca_path=str(tmp_path / "ca.crt")))
    of_text, other = (
        connection.cluster_id(connection_with(ca_data=base64.b64encode(text).decode())) for text in (b"first", b"other")
    )
    assert of_file == of_text != other
    assert connection.cluster_id(connection_with()) is None


KUBECONFIG: dict[str, Any] = {
    "current-context": "c",
    "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1", "certificate-authority": "/missing/ca"}}],
    "users": [{"name": "c", "user": {}}],
    "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
}


@pytest.mark.parametrize("text", [None, "{", "[]", "clusters: 1", json.dumps(KUBECONFIG)])
def test_a_kubeconfig_that_cannot_be_used_ends_with_a_sentence(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, text: str | None
) -> None:
    """Given a kubeconfig that is missing, is no YAML, or names a missing file; then the sentence names it."""
    path = tmp_path / "config"
    if text is not None:
        path.write_text(text)
    monkeypatch.setenv("KUBECONFIG", str(path))
    with pytest.raises(SystemExit, match="no API server: ") as error:
        connection.ssl_context(connection.find_connection())
    assert str(path) in str(error.value) or "/missing/ca" in str(error.value)
