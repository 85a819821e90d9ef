"""The usage of a job is the sum over its pods, whenever it was written and by whichever controller."""

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st
from support.factories import NOW, pod

from tfdist.api.history_status import Usage
from tfdist.observed.pod import PodSummary
from tfdist.observed.pod_resources import PodResources
from tfdist.status.usage import usage_of
from tfdist.timestamps import rfc3339

END = 1000
LIVES = st.lists(
    st.tuples(st.integers(0, END), st.integers(0, END), st.sampled_from((0.0, 1.0, 2.0)), st.sampled_from((0.5, 3.0))),
    max_size=6,
)


def seen(number: int, life: tuple[int, int, float, float], now: float) -> PodSummary | None:
    """A pod at a time: None before it exists."""
    start, length, gpus, cpus = life
    known = {
        "scheduled_at": rfc3339(NOW + timedelta(seconds=start)),
        "resources": PodResources(gpus, cpus),
        "finished_at": rfc3339(NOW + timedelta(seconds=start + length)),
    }
    if now < start:
        return None
    return pod(f"worker-{number}", "S", **known) if now >= start + length else pod(
        f"worker-{number}", "R", **known | {"finished_at": ""}
    )  # fmt: skip


@given(lives=LIVES, writes=st.lists(st.floats(0, 2 * END), max_size=12))
def test_any_sequence_of_writes_gives_the_sum_over_the_pods(
    lives: list[tuple[int, int, float, float]], writes: list[float]
) -> None:
    used: Usage | None = None
    for now in [*sorted(writes), 2 * END]:
        pods = [found for number, life in enumerate(lives) if (found := seen(number, life, now)) is not None]
        used = usage_of(used, pods, NOW + timedelta(seconds=now))
    used = used or Usage(gpu_seconds=0, cpu_seconds=0, gpus=0, cpus=0)
    assert used.gpu_seconds == sum(length * gpus for _, length, gpus, _ in lives)
    assert used.cpu_seconds == sum(length * cpus for _, length, _, cpus in lives)
    assert (used.gpus, used.cpus) == (0.0, 0.0)
