"""A machine that advertises AMX and does not support it computes in bfloat16 without it."""

import signal
from pathlib import Path

import pytest

from tfdist_trainer.strategies import amx_workaround

pytestmark = pytest.mark.trainer


@pytest.mark.parametrize(
    ("flags", "set_by_user", "ends_with", "expected"),
    [
        ("avx512f amx_bf16", {}, -signal.SIGILL, {amx_workaround.ISA_ENV: "AVX512_CORE_FP16"}),
        ("avx512f amx_bf16", {}, 0, {}),
        ("avx512f amx_bf16", {}, -signal.SIGALRM, {}),
        ("avx512f amx_bf16", {amx_workaround.ISA_ENV: "ALL"}, -signal.SIGILL, {amx_workaround.ISA_ENV: "ALL"}),
        ("avx512f", {}, -signal.SIGILL, {}),
    ],
)
def test_amx_is_disabled_only_where_it_is_advertised_and_fails(
    flags: str,
    set_by_user: dict[str, str],
    ends_with: int,
    expected: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "cpuinfo").write_text(f"flags\t\t: {flags}\n")
    monkeypatch.setattr(amx_workaround, "_CPUS", tmp_path / "cpuinfo")
    monkeypatch.setattr(amx_workaround, "_trial_exit_code", lambda: ends_with)
    environ = dict(set_by_user)
    amx_workaround.disable_broken_amx(environ)
    assert environ == expected
