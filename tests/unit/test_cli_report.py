"""Reports for a bug: what may be secret is masked, and a file is complete or absent."""

import json
import pathlib
import tarfile
from typing import Any

import pytest

from tfdist.cli.commands import report
from tfdist.cli.errors import CommandError
from tfdist.client.masking import MASK, Masking
from tfdist.client.report import File

Json = dict[str, Any]


def test_values_that_may_be_secret_are_masked_and_listed() -> None:
    masking = Masking()
    kept = {"name": "EPOCHS", "value": "3"}
    reference = {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "wandb", "key": "token"}}}
    last_applied = "kubectl.kubernetes.io/last-applied-configuration"
    job = {
        "metadata": {"annotations": {last_applied: "{}", "team": "vision"}},
        "spec": {
            "env": [
                {"name": "WANDB_API_KEY", "value": "abc123def"},
                kept,
                {"name": "DB", "value": "mysql://me:pa55word@db/x"},
                reference,
                {"name": "TFDIST_JOB", "value": '{"launch": {"token": "launch-token-1"}}'},
            ],
            "template": {"spec": {"imagePullSecrets": [{"name": "registry-login"}]}},
            "training": {
                "args": ["--lr=1", "--password", "hunter22", "--api-key=xyz98765"],
                "config": {"accessKey": "AKIA1234"},
            },
            "volumes": [{"secret": {"secretName": "wandb"}}],
        },
    }  # fmt: skip

    masked = masking.json(job, "job")

    text = json.dumps(masked)
    for secret in ("abc123def", "pa55word", "launch-token-1", "registry-login", "hunter22", "xyz98765", "AKIA1234"):
        assert secret not in text
    assert (masked["spec"]["env"][1], masked["spec"]["env"][3]) == (kept, reference)
    assert masked["spec"]["volumes"] == [{"secret": {"secretName": "wandb"}}]
    assert masked["metadata"]["annotations"] == {last_applied: MASK, "team": "vision"}
    assert "job.spec.env[0]: WANDB_API_KEY" in masking.masked
    assert "job.spec.training.args[2]" in masking.masked


def test_a_masked_value_is_masked_in_logs_too() -> None:
    masking = Masking()
    masking.json({"env": [{"name": "MY_SECRET", "value": "s3cr3t-value"}]}, "job")

    text = masking.text("login with s3cr3t-value\nAuthorization: Bearer abcdefghijk\nplain\n", "log")

    assert text == f"login with {MASK}\nAuthorization: Bearer {MASK}\nplain\n"
    assert masking.masked[-1] == "log: in its text"


def test_a_report_is_written_completely_or_not_at_all(tmp_path: pathlib.Path) -> None:
    def cut() -> Any:
        yield File("job.json", b"{}")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        report.write(tmp_path / "r.tar.gz", cut(), "r")
    assert list(tmp_path.iterdir()) == []

    report.write(tmp_path / "r.tar.gz", [File("job.json", b"{}")], "r")
    with tarfile.open(tmp_path / "r.tar.gz") as archive:
        assert archive.getnames() == ["r/job.json"]
    assert [each.name for each in tmp_path.iterdir()] == ["r.tar.gz"]


def test_a_report_never_replaces_a_file(tmp_path: pathlib.Path) -> None:
    target = tmp_path / "r.tar.gz"

    def files() -> Any:
        target.write_text("mine")  # created meanwhile
        yield File("job.json", b"{}")

    with pytest.raises(CommandError, match="exists already"):
        report.write(target, files(), "r")
    assert target.read_text() == "mine"
