"""What each script does on two workers, compared with one process: the same, or something else for a reason."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

SCRIPTS: Final = Path(__file__).parent / "scripts"


@dataclass(frozen=True)
class Equal:
    """The mathematics is that of one process: each number differs by rounding alone."""

    tolerance: float
    """Relative to the largest number of its array, or absolute if all are below one."""

    without_strategy: bool = False
    """Whether the one process has TensorFlow's default strategy: Keras fails or takes a batch away under any other."""


@dataclass(frozen=True)
class Differs:
    """Two workers do something else than one process, and are compared with each other alone."""

    reason: str


EXACT: Final = Equal(1e-5)

EXPECTED: Final[dict[str, Equal | Differs]] = {
    "actor_critic": Differs("each worker plays episodes of its own"),
    "add_loss": EXACT,
    "anomaly_detection": EXACT,
    "audio_classification": EXACT,
    "audio_files": EXACT,
    "augmentation": Differs("each worker draws its own changes of its images"),
    "autoencoder": EXACT,
    "backup_and_restore": EXACT,
    "batch_normalization_and_dropout": Differs("statistics are those of a worker's part of a batch; dropout is drawn"),
    "callbacks_that_control": EXACT,
    "callbacks_that_write": EXACT,
    "class_and_sample_weights": EXACT,
    "compiled_by_xla": EXACT,
    "custom_train_step": EXACT,
    "custom_training_loop": EXACT,
    "deep_q_network": EXACT,
    "deterministic_policy_gradient": EXACT,
    "distributed_dataset": EXACT,
    "generative_adversarial": Differs("each worker draws the noise of its generated examples"),
    # Keras takes the first batches away to build the model, which a generator does not give again.
    "generator": Equal(1e-5, without_strategy=True),
    # Keras calls `merge_call` inside of a `cond`, which the strategy rejects.
    "gradient_accumulation": Equal(1e-5, without_strategy=True),
    "hyperparameter_search": EXACT,
    "image_classifier": EXACT,
    "image_classifier_arrays": EXACT,
    "k_fold_validation": EXACT,
    "knowledge_distillation": EXACT,
    "learning_rate_schedules": EXACT,
    "loop_over_batches": EXACT,
    # A bias of keys has no effect on attention: its gradient is rounding alone, which Adam enlarges.
    "masked_language_model": Equal(1e-4),
    "metric_learning": Differs("an anchor is compared with the positives of its worker's part of a batch"),
    # A part of a batch is rounded to bfloat16 by itself, and such a number has eight bits.
    "mixed_precision": Equal(2e-2),
    "molecule_regression": EXACT,
    # Keras takes the ragged tensors for dense ones when it builds the model.
    "molecules_of_any_size": Equal(1e-5, without_strategy=True),
    "movie_ratings": EXACT,
    # As above: it overwrites the weights inside of a `cond`.
    "moving_average_of_weights": Equal(1e-5, without_strategy=True),
    "named_entity_recognition": Differs("the loss divides by the words of its worker's part of a batch"),
    "node_classification": EXACT,
    "prediction_in_order": EXACT,
    "pretrained_embeddings": EXACT,
    "py_dataset": EXACT,
    "record_files": Differs("each worker reads files of its own, so batches have other examples"),
    "regularizers_and_constraints": EXACT,
    "run_eagerly": EXACT,
    "save_and_load": EXACT,
    "segmentation": EXACT,
    "sequence_tagging": EXACT,
    "sequence_to_sequence": EXACT,
    "several_inputs_and_outputs": EXACT,
    # Keras takes a batch to build the model, and the next iteration has another order.
    "shuffled_pipeline": Equal(1e-5, without_strategy=True),
    # Keras builds the model with the first element of a triplet alone.
    # Adam divides by the root of a small second moment, which enlarges rounding.
    "siamese_triplet": Equal(2e-4, without_strategy=True),
    "speech_recognition": EXACT,
    # Keras builds the model with names of inputs that it does not take.
    # The bias of keys, as for `masked_language_model`.
    "speech_transformer": Equal(1e-4, without_strategy=True),
    "steps_per_execution": EXACT,
    "structured_data": EXACT,
    "synchronized_batch_normalization": EXACT,
    # As for `shuffled_pipeline`: each iteration has another order.
    "text_files": Equal(1e-5, without_strategy=True),
    # The bias of keys, as for `masked_language_model`.
    "text_generation": Equal(1e-4),
    "text_transformer": EXACT,
    "text_with_masks": EXACT,
    "timeseries_convolution": EXACT,
    "timeseries_last_row": EXACT,
    "timeseries_lstm": EXACT,
    "transfer_learning": EXACT,
    "two_tower_recommendation": Differs("an item is compared with those of its worker's part of a batch"),
    "uneven_sizes": EXACT,
    "variational_autoencoder": Differs("each worker draws the noise of its codes"),
    "wide_and_deep": EXACT,
}
