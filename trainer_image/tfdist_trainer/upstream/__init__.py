"""The private parts of Keras and TensorFlow that the trainer uses, each behind a function of this package.

No other module names one (`tests/unit/test_private_hooks.py`). Each module lists its hooks as `HOOKS`: why the hook is
needed, the upstream file that defines it, the versions it was tested with, and what happens if it is missing.
`tests/trainer/test_upstream.py` checks attribute, signature and behaviour of each, so an update of Keras or TensorFlow
that changes one fails there. The versions are those that `requirements/trainer-cpu.txt` locks.
"""
