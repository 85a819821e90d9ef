"""Random models end by two and three workers as by one process. One worker is left to Keras, so it is not tried."""

from pathlib import Path
from typing import Final

import pytest

from .workers import Arrays, assert_close, cluster, results

pytestmark = [pytest.mark.trainer, pytest.mark.long, pytest.mark.timeout(3600)]

PROGRAM: Final = Path(__file__).with_name("random_models.py")
COUNT: Final = 24
AT_ONCE: Final = 8
"""Models that one process trains."""
TOLERANCE: Final = 1e-5


def trained(folder: Path, configs: list[str | None], first: int) -> list[Arrays]:
    return results([str(PROGRAM), str(first), str(first + AT_ONCE)], folder, configs)


@pytest.mark.parametrize("first", range(0, COUNT, AT_ONCE))
def test_random_models_end_by_several_workers_as_by_one_process(first: int, tmp_path: Path) -> None:
    # given
    [alone] = trained(tmp_path / "alone", [None], first)
    for size in (2, 3):
        # when
        one, *others = trained(tmp_path / f"workers-{size}", cluster(size), first)
        # then
        assert_close(one, alone, tolerance=TOLERANCE)
        for other in others:
            assert_close(other, one, tolerance=0.0)
