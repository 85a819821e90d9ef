"""What Keras' own tests do under two workers where they do not pass, and why."""

from typing import Final

_RAGGED: Final = "`predict` gathers the outputs of all workers by `Strategy.gather`, which takes no RaggedTensor"
_ONLY_COMPILES: Final = "it compiles models, or builds them by a call, and trains none"

FAILS: Final[dict[str, str]] = {
    f"test_trainer_with_raggeds_{kind}": _RAGGED for kind in ("functional", "layer", "model")
}
"""Tests that fail, each with its reason. One that passes is an error too."""

ON_ONE_REPLICA: Final[dict[str, str]] = {
    "test_jit_compile_with_tf_determinism": _ONLY_COMPILES,
    "test_multiple_compiles": _ONLY_COMPILES,
    "test_nested_trainer_metrics": _ONLY_COMPILES,
    "test_nested_trainer_metrics_without_compile": _ONLY_COMPILES,
    "test_symbolic_build": _ONLY_COMPILES,
}
"""Tests that run no step under the strategy, each with its reason."""
