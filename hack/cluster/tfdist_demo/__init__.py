"""The demonstration: from an empty machine to a finished distributed training with its accuracy, in one command.

Every step first checks which objects exist, so a second run takes the time of the training alone, and an interrupted
run continues. The user confirms every change of a cluster that is not made here.

Layers, lower ones know nothing of higher ones: `screen`, `trouble`, `place`, `manifests` are pure; `kubectl` and
`children` start programs; `target`, `install`, `data` and `example_data` (both through `volume`), `follow` are the
steps; `__main__` is their order. `borrowed` is for tests on a user's cluster.
"""
