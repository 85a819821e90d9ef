"""Runs a script with the engine for `fit` of several workers, also in a fork of a process that has imported Keras."""

import runpy
import sys

from tfdist_trainer.keras import enable

enable()
sys.argv.pop(0)
runpy.run_path(sys.argv[0], run_name="__main__")
