"""The demonstration: from an empty machine to a finished distributed training with its accuracy, in one command.

Every step looks first at what is there, so a second run takes the time of the training alone, and one that was
interrupted goes on. On a cluster of the user's nothing is changed before it has been said and agreed to.

Layers, lower ones know nothing of higher ones: `screen`, `trouble`, `place`, `manifests` are pure; `kubectl` and
`children` start programs; `target`, `install`, `data` and `example_data` (both through `volume`), `follow` are the
steps; `__main__` is their order. `borrowed` is for the tests on a cluster of somebody else's.
"""
