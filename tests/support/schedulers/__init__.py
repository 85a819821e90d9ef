"""Gang and queue schedulers of other projects as processes, next to the control plane of the tests."""
