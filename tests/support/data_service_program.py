"""A program whose examples a tf.data service produces, of which it writes down the numbers (`recording_program`)."""

import os
from typing import Any, Final

import numpy as np
import tensorflow as tf

from support import recording_program

SERVICE: Final = "DATA_SERVICE"
"""Environment variable: the target of the dispatcher."""


class FromService(recording_program.FromDataSet):
    """Reads the numbers from the service."""

    def dataset(self, _split: Any, shard: Any) -> tf.data.Dataset:
        # Of this pipeline alone, and before the data set: the workers of the service divide what it begins with.
        numbers = np.arange(recording_program.EXAMPLES, dtype=np.float32)[shard.index :: shard.count]
        examples = tf.data.Dataset.from_tensor_slices(numbers).map(lambda number: ([number], number))
        served = examples.apply(
            tf.data.experimental.service.distribute(
                tf.data.experimental.service.ShardingPolicy.DYNAMIC, os.environ[SERVICE]
            )
        )
        return served.apply(tf.data.experimental.assert_cardinality(len(numbers)))
