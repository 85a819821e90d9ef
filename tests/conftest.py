"""Hypothesis' settings for all suites."""

import pytest
from hypothesis import settings

settings.register_profile("repeatable", deadline=None, derandomize=True, print_blob=True)
settings.register_profile("search", deadline=None, print_blob=True)


def pytest_configure(config: pytest.Config) -> None:
    """Draw the same examples in each run of `make test`, and new ones in `make test-long`.

    No example has a deadline: the time of one on a busy machine is no property of the code.
    """
    settings.load_profile("search" if config.option.markexpr == "long" else "repeatable")
