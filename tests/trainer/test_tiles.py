"""A machine that promises AMX and does not have it computes in bfloat16 all the same."""

import signal
from pathlib import Path

import pytest

from tfdist_trainer.strategies import tiles

pytestmark = pytest.mark.trainer


@pytest.mark.parametrize(
    ("flags", "set_by_user", "ends_with", "expected"),
    [
        ("avx512f amx_bf16", {}, -signal.SIGILL, {tiles.ISA_ENV: "AVX512_CORE_FP16"}),
        ("avx512f amx_bf16", {}, 0, {}),
        ("avx512f amx_bf16", {}, -signal.SIGALRM, {}),
        ("avx512f amx_bf16", {tiles.ISA_ENV: "ALL"}, -signal.SIGILL, {tiles.ISA_ENV: "ALL"}),
        ("avx512f", {}, -signal.SIGILL, {}),
    ],
)
def test_amx_is_left_alone_only_where_it_is_promised_and_fails(
    flags: str,
    set_by_user: dict[str, str],
    ends_with: int,
    expected: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "cpuinfo").write_text(f"flags\t\t: {flags}\n")
    monkeypatch.setattr(tiles, "_CPUS", tmp_path / "cpuinfo")
    monkeypatch.setattr(tiles, "_ends_with", lambda: ends_with)
    environ = dict(set_by_user)
    tiles.avoid_broken(environ)
    assert environ == expected
