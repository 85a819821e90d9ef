"""The contestant: a loop written by hand, for one model and one set of examples, that does nothing else.

What TensorFlow's guides advise, and the one trick beyond them that pays on several processes: 100 steps inside one
`tf.function`; `tf.data` with shuffle, batch, repeat and prefetch; Keras' model and Adam; loss and accuracy added up;
gradients exchanged as one vector. It restores nothing, saves nothing, reports nothing, and drops the last batch.
"""

from typing import Any, Final

import numpy.typing as npt
import tensorflow as tf

from tfdist_trainer.upstream.keras_optimizers import disable_gradient_reduction

STEPS_PER_EXECUTION: Final = 100
BUFFER: Final = 10_000


class PlainLoop:
    """Trains `model` on `images` [examples, ...] and `labels` [examples]."""

    def __init__(
        self,
        strategy: tf.distribute.Strategy,
        model: Any,
        optimizer: Any,
        images: npt.NDArray[Any],
        labels: npt.NDArray[Any],
        batch_size: int,
    ) -> None:
        self._strategy = strategy
        self._model = model
        self._optimizer = optimizer
        self._replicas = strategy.num_replicas_in_sync
        disable_gradient_reduction(optimizer)

        def pipeline(context: tf.distribute.InputContext) -> tf.data.Dataset:
            with tf.device("CPU:0"):
                examples = tf.data.Dataset.from_tensor_slices((images, labels))
            examples = examples.shard(context.num_input_pipelines, context.input_pipeline_id).shuffle(BUFFER)
            return examples.batch(batch_size, drop_remainder=True).repeat().prefetch(tf.data.AUTOTUNE)

        self._iterator = iter(strategy.distribute_datasets_from_function(pipeline))
        self._graph = tf.function(self._execute)

    def run(self, steps: int) -> None:
        """Take `steps` steps."""
        for completed_steps in range(0, steps, STEPS_PER_EXECUTION):
            loss, _ = self._graph(self._iterator, tf.constant(min(STEPS_PER_EXECUTION, steps - completed_steps)))
            float(loss)

    def _execute(self, iterator: Any, steps: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        loss, correct = tf.constant(0.0), tf.constant(0.0)
        for _ in tf.range(steps):
            results = self._strategy.run(self._step, args=(next(iterator),))
            one, right = (self._strategy.experimental_local_results(result)[0] for result in results)
            loss += one
            correct += right
        return loss, correct

    def _step(self, batch: tuple[tf.Tensor, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
        images, labels = batch
        with tf.GradientTape() as tape:
            logits = self._model(images, training=True)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
        variables = self._model.trainable_variables
        gradients = tape.gradient(loss, [variable.value for variable in variables])
        if self._replicas > 1:
            flat = tf.concat([tf.reshape(gradient, [-1]) for gradient in gradients], axis=0)
            flat = tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.MEAN, flat)
            parts = tf.split(flat, [gradient.shape.num_elements() for gradient in gradients])
            gradients = [tf.reshape(part, gradient.shape) for part, gradient in zip(parts, gradients, strict=True)]
        self._optimizer.apply(gradients, variables)
        correct = tf.equal(tf.argmax(logits, axis=-1), labels)
        return loss, tf.reduce_sum(tf.cast(correct, tf.float32))
