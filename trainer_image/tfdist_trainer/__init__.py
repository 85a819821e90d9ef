"""Trains and evaluates under `tf.distribute`, as one replica of a TFDistJob.

Importing this package, and everything that runs before the configuration is known to be right, does not
import TensorFlow: a mistake in the configuration is reported in a fraction of a second.
"""

__version__ = "0.1.0"
