"""Functions that tests submit as jobs: their module is sent with them, so it imports nothing of the tests."""

import tfdist


@tfdist.job(workers=2)
def train(lr: float, layers: list[int] | None = None) -> None:
    """Print the arguments."""
    print("trained with", lr, layers)
