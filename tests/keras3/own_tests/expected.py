"""What Keras' own tests do under two workers where they do not pass, and why."""

from typing import Final

FAILS: Final[dict[str, str]] = {}
"""Tests that fail, each with its reason. One that passes is an error too."""

ON_ONE_REPLICA: Final[dict[str, str]] = {}
"""Tests that run no step under the strategy, each with its reason."""
