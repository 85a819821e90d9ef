"""Twelve kinds of files with credentials: none leaves the machine with the code, and none of their secrets a report."""

import json
from pathlib import Path

import pytest

from tfdist.client.code_archive import pack_folder
from tfdist.client.report import Masking

KEY = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7"
PEM = f"-----BEGIN {{0}}PRIVATE KEY-----\n{KEY}\n{KEY[::-1]}\n-----END {{0}}PRIVATE KEY-----\n"
SERVICE_ACCOUNT = {"type": "service_account", "project_id": "ml", "private_key": PEM.format("")}
FILES = {
    ".env": ("DEBUG=1\nDB_PASSWORD=env-pa55word\n", ["env-pa55word"]),
    "id_rsa": (PEM.format("OPENSSH "), [KEY, KEY[::-1]]),
    ".aws/credentials": (
        "[default]\naws_access_key_id = AKIAIOSFODNN7EXAMPLE\naws_secret_access_key = wJalrXUtnFEMI/K7MDENG\n",
        ["AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI"],
    ),
    ".netrc": ("machine example.org\nlogin me\npassword netrc-pa55word\n", ["netrc-pa55word"]),
    ".kube/config": (
        "apiVersion: v1\nkind: Config\nusers:\n- user:\n    client-key-data: LS0tLS1CRUdJTiBSU0E=\n"
        "    token: kube-t0ken\n",
        ["LS0tLS1CRUdJTiBSU0E", "kube-t0ken"],
    ),
    "certs/tls.pem": (PEM.format("RSA "), [KEY, KEY[::-1]]),
    ".npmrc": (
        "//registry.example.org/:_authToken=npm_0123456789abcdefghij\n//npm.example.org/:_auth=bWU6cGE1NQ==\n",
        ["npm_0123456789abcdefghij", "bWU6cGE1NQ"],
    ),
    ".pypirc": ("[pypi]\nusername = __token__\npassword = pypi-AgEIcHlwaS5vcmc\n", ["pypi-AgEIcHlwaS5vcmc"]),
    ".docker/config.json": ('{"auths": {"ghcr.io": {"auth": "bWU6ZG9ja2Vy"}}}', ["bWU6ZG9ja2Vy"]),
    "gcp.json": (json.dumps(SERVICE_ACCOUNT), [KEY, KEY[::-1]]),
    ".git-credentials": ("https://me:ghp_0123456789abcdef@github.com\n", ["ghp_0123456789abcdef"]),
    ".vault-token": ("hvs.CAESIJ0123456789abcdefghij\n", ["hvs.CAESIJ0123456789abcdefghij"]),
}  # fmt: skip


def test_none_of_the_files_is_packed_with_the_code(tmp_path: Path) -> None:
    # given
    for name, (text, _) in {**FILES, "train.py": ("print(1)\n", [])}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    # when
    archive = pack_folder(tmp_path)
    # then
    assert archive.files == ("train.py",)
    assert archive.secrets == tuple(sorted(FILES))


@pytest.mark.parametrize(("text", "secrets"), FILES.values(), ids=FILES)
def test_no_secret_of_a_file_that_a_job_has_printed_is_in_a_report(text: str, secrets: list[str]) -> None:
    """Given a program that prints the file and fails with it; a log has a time before each line, and may be cut."""
    # when
    masking = Masking()
    condition = {"type": "Failed", "message": f"RuntimeError: cannot log in with {text}"}
    manifest = {"spec": {"command": ["sh", "-c", f"echo '{text}'"]}, "status": {"conditions": [condition]}}
    job = masking.json(manifest, "job")
    events = masking.json([{"reason": "BackOff", "message": f"back-off: {text}"}], "events.json")
    printed = "".join(f"2026-11-21T21:57:31.123456789Z {line}\n" for line in ["start", *text.splitlines()])
    alone = [Masking().text(each, "log") for each in (printed, printed[:-40], text, repr(text), json.dumps(text))]
    # then
    found = json.dumps([job, events, masking.text(printed, "log"), alone])
    assert [secret for secret in secrets if secret in found] == []
    assert alone[0].startswith("2026-11-21T21:57:31.123456789Z start\n")


def test_a_key_that_a_log_cuts_short_is_masked_too() -> None:
    time = "2026-11-21T21:57:31.123456789Z"
    assert KEY not in Masking().text(f"{time} -----BEGIN PRIVATE KEY-----\n{time} {KEY}", "log")
