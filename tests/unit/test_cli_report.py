"""Reports for a bug: what may be secret is masked, and a file is complete or absent."""

import json
import pathlib
import tarfile
from typing import Any

import pytest

from tfdist.cli.commands import doctor as command
from tfdist.cli.errors import CommandError
from tfdist.client.report import File, Masking
from tfdist.url_credentials import MASK

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


SECRETS = {
    "shell": ("w4ndbs3cret", "export WANDB_API_KEY=w4ndbs3cret; python train.py"),
    "option in a shell": ("tok12345", "python train.py --hub-token=tok12345"),
    "option with a space": ("hunter2hunter2", "mysql --password hunter2hunter2 --host db"),
    "user of a URL": ("ghp_0123456789abcdef", "cloning https://ghp_0123456789abcdef@github.com/o/r"),
    "user and password of a URL": ("s3cr3tpw", "https://me:s3cr3tpw@host/x"),
    "signature": ("deadbeefdeadbeef", "https://b.s3.amazonaws.com/k?X-Amz-Date=1&X-Amz-Signature=deadbeefdeadbeef"),
    "shared access": ("c2lnbmF0dXJl", "https://a.blob.core.windows.net/c?sv=2&sig=c2lnbmF0dXJl"),
    "YAML": ("hunter3hunter3", "password: hunter3hunter3"),
    "JSON": ("hunter4 hunter4", '{"user": "me", "db_password": "hunter4 hunter4"}'),
    "escaped JSON": ("hunter5hunter5", '"{\\"token\\": \\"hunter5hunter5\\"}"'),
    "header": ("ghs_x1x2x3x4", "Authorization: token ghs_x1x2x3x4"),
    "token alone": ("hf_abcdefghijklmnopqrst", "logged in with hf_abcdefghijklmnopqrst"),
    "access key": ("AKIAIOSFODNN7EXAMPLE", "using AKIAIOSFODNN7EXAMPLE"),
    "private key": ("MIIEvQIBADAN", "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADAN\n-----END PRIVATE KEY-----"),
}


@pytest.mark.parametrize(("secret", "text"), SECRETS.values(), ids=SECRETS)
def test_secrets_in_text_are_masked_in_every_file_of_a_report(secret: str, text: str) -> None:
    # given a text in a command, an event, a description and a log
    masking = Masking()
    # when
    job = masking.json({"spec": {"command": ["sh", "-c", text]}}, "job")
    event = masking.json([{"message": f"failed: {text}"}], "events.json")
    log = masking.text(f"2026-11-21T21:57:31Z {text}\nnext line", "log")
    # then
    assert secret not in json.dumps([job, event, log])
    assert {path.partition(".")[0].partition(":")[0] for path in masking.masked} == {"job", "events", "log"}
    assert log.endswith("\nnext line")


def test_what_a_command_sets_is_masked_where_its_log_prints_it() -> None:
    masking = Masking()
    masking.json({"command": ["sh", "-c", "export WANDB_API_KEY=w4ndbs3cret; python train.py"]}, "job")

    assert masking.text("wandb: using w4ndbs3cret", "log") == f"wandb: using {MASK}"


@pytest.mark.parametrize(
    "text",
    [
        "tokens: 512, token_count=3, 1200 tokens/s",
        "key: value, monkey=banana, author: me",
        'secret "wandb" not found',
        "export WANDB_API_KEY=$KEY",
        "git clone ssh://git@github.com/o/r and git@github.com:o/r",
        "https://host/path?version=3 password is missing",
    ],
)
def test_text_without_secrets_stays(text: str) -> None:
    masking = Masking()

    assert (masking.text(text, "log"), masking.masked) == (text, [])


def test_a_report_is_written_completely_or_not_at_all(tmp_path: pathlib.Path) -> None:
    def cut() -> Any:
        yield File("job.json", b"{}")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        command.write(tmp_path / "r.tar.gz", cut(), "r")
    assert list(tmp_path.iterdir()) == []

    command.write(tmp_path / "r.tar.gz", [File("job.json", b"{}")], "r")
    with tarfile.open(tmp_path / "r.tar.gz") as archive:
        assert archive.getnames() == ["r/job.json"]
    assert [each.name for each in tmp_path.iterdir()] == ["r.tar.gz"]


def test_a_report_never_replaces_a_file(tmp_path: pathlib.Path) -> None:
    target = tmp_path / "r.tar.gz"

    def files() -> Any:
        target.write_text("mine")  # created meanwhile
        yield File("job.json", b"{}")

    with pytest.raises(CommandError, match="exists already"):
        command.write(target, files(), "r")
    assert target.read_text() == "mine"
