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

    reason: str = ""
    """Why the tolerance or the strategy is another one."""


@dataclass(frozen=True)
class Differs:
    """Two workers do something else than one process, and are compared with each other alone."""

    reason: str


EXACT: Final = Equal(1e-5)
KEYS: Final = "a bias of keys has no effect on attention: its gradient is rounding alone, which Adam enlarges"
ANOTHER_ORDER: Final = Equal(
    1e-5,
    without_strategy=True,
    reason="under a strategy Keras takes a batch to build the model: the order is another",
)

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
    "character_rnn": ANOTHER_ORDER,
    "class_and_sample_weights": EXACT,
    "compiled_by_xla": EXACT,
    "custom_train_step": EXACT,
    "custom_training_loop": EXACT,
    "deep_q_network": EXACT,
    "deterministic_policy_gradient": EXACT,
    "diffusion": Differs("each worker draws the noise of its images"),
    "distributed_dataset": EXACT,
    "export_archive": EXACT,
    "generative_adversarial": Differs("each worker draws the noise of its generated examples"),
    "generator": Equal(
        1e-5, without_strategy=True, reason="under a strategy Keras takes a generator's first batches away"
    ),
    "grad_cam": EXACT,
    "gradient_accumulation": Equal(
        1e-5, without_strategy=True, reason="a strategy rejects `merge_call` inside of a `cond`"
    ),
    "hyperparameter_search": EXACT,
    "image_classifier": EXACT,
    "image_classifier_arrays": EXACT,
    "images_from_folder": ANOTHER_ORDER,
    "k_fold_validation": EXACT,
    "knowledge_distillation": EXACT,
    "learning_rate_schedules": EXACT,
    "loop_over_batches": EXACT,
    "loss_scale": Equal(1e-3, reason="a part of a batch is rounded to float16, which has eleven bits, by itself"),
    "masked_language_model": Equal(1e-4, reason=KEYS),
    "metric_learning": Differs("an anchor is compared with the positives of its worker's part of a batch"),
    "mixed_precision": Equal(2e-2, reason="a part of a batch is rounded to bfloat16, which has eight bits, by itself"),
    "mixup_and_cutmix": ANOTHER_ORDER,
    "molecule_regression": EXACT,
    "molecules_of_any_size": Equal(
        1e-5, without_strategy=True, reason="under a strategy Keras takes ragged tensors for dense ones"
    ),
    "movie_ratings": EXACT,
    "moving_average_of_weights": Equal(
        1e-5, without_strategy=True, reason="a strategy rejects to overwrite the weights inside of a `cond`"
    ),
    "named_entity_recognition": Differs("the loss divides by the words of its worker's part of a batch"),
    "node_classification": EXACT,
    "object_detection": EXACT,
    "own_callbacks": Equal(
        1e-5, without_strategy=True, reason="under a strategy `float` does not convert the learning rate of Keras"
    ),
    "own_layers": EXACT,
    "own_metrics": EXACT,
    "prediction_in_order": EXACT,
    "pretrained_embeddings": EXACT,
    "pretrained_weights": EXACT,
    "py_dataset": EXACT,
    "record_files": Differs("each worker reads files of its own, so batches have other examples"),
    "regularizers_and_constraints": EXACT,
    "run_eagerly": EXACT,
    "save_and_load": EXACT,
    "segmentation": EXACT,
    "semi_supervised": Differs("each worker has neighbors and noise of its own"),
    "sequence_tagging": EXACT,
    "sequence_to_sequence": EXACT,
    "several_inputs_and_outputs": EXACT,
    "shuffled_pipeline": ANOTHER_ORDER,
    "siamese_triplet": Equal(
        2e-4,
        without_strategy=True,
        reason="under a strategy Keras builds the model with the first of three elements alone; "
        "Adam divides by the root of a small second moment, which enlarges rounding",
    ),
    "speech_recognition": EXACT,
    "speech_transformer": Equal(1e-4, without_strategy=True, reason=KEYS),
    "steps_per_execution": EXACT,
    "structured_data": EXACT,
    "style_transfer": EXACT,
    "supervised_contrastive": Differs("an image is compared with those of its worker's part of a batch"),
    "synchronized_batch_normalization": EXACT,
    "text_files": ANOTHER_ORDER,
    "text_generation": Equal(1e-4, reason=KEYS),
    "text_transformer": EXACT,
    "text_with_masks": EXACT,
    "timeseries_convolution": EXACT,
    "timeseries_last_row": EXACT,
    "timeseries_lstm": EXACT,
    "transfer_learning": EXACT,
    "two_tower_recommendation": Differs("an item is compared with those of its worker's part of a batch"),
    "uneven_sizes": EXACT,
    "variational_autoencoder": Differs("each worker draws the noise of its codes"),
    "vector_quantization": Equal(
        1e-5, without_strategy=True, reason="under a strategy Keras calls the model to build it, which has no `call`"
    ),
    "wasserstein_gan": Differs("each worker draws the noise of its generated images"),
    "wide_and_deep": EXACT,
}

FOLDERS: Final[dict[str, set[str]]] = {
    "vision": {
        "augmentation",
        "autoencoder",
        "grad_cam",
        "image_classifier",
        "image_classifier_arrays",
        "images_from_folder",
        "knowledge_distillation",
        "metric_learning",
        "mixup_and_cutmix",
        "object_detection",
        "segmentation",
        "semi_supervised",
        "siamese_triplet",
        "supervised_contrastive",
    },
    "nlp": {
        "masked_language_model",
        "named_entity_recognition",
        "pretrained_embeddings",
        "sequence_to_sequence",
        "text_files",
        "sequence_tagging",
        "text_transformer",
        "text_with_masks",
    },
    "structured data": {
        "movie_ratings",
        "two_tower_recommendation",
        "wide_and_deep",
        "structured_data",
    },
    "time series": {
        "anomaly_detection",
        "timeseries_last_row",
        "timeseries_convolution",
        "timeseries_lstm",
    },
    "generative": {
        "text_generation",
        "character_rnn",
        "diffusion",
        "generative_adversarial",
        "style_transfer",
        "variational_autoencoder",
        "vector_quantization",
        "wasserstein_gan",
    },
    "audio": {
        "audio_classification",
        "audio_files",
        "speech_recognition",
        "speech_transformer",
    },
    "reinforcement learning": {
        "actor_critic",
        "deep_q_network",
        "deterministic_policy_gradient",
    },
    "graphs": {
        "molecule_regression",
        "molecules_of_any_size",
        "node_classification",
    },
    "guides": {
        "hyperparameter_search",
        "k_fold_validation",
        "loss_scale",
        "add_loss",
        "backup_and_restore",
        "batch_normalization_and_dropout",
        "callbacks_that_control",
        "callbacks_that_write",
        "class_and_sample_weights",
        "compiled_by_xla",
        "custom_train_step",
        "custom_training_loop",
        "distributed_dataset",
        "export_archive",
        "generator",
        "gradient_accumulation",
        "learning_rate_schedules",
        "loop_over_batches",
        "mixed_precision",
        "moving_average_of_weights",
        "own_callbacks",
        "own_layers",
        "own_metrics",
        "prediction_in_order",
        "pretrained_weights",
        "py_dataset",
        "record_files",
        "regularizers_and_constraints",
        "run_eagerly",
        "save_and_load",
        "several_inputs_and_outputs",
        "shuffled_pipeline",
        "steps_per_execution",
        "synchronized_batch_normalization",
        "transfer_learning",
        "uneven_sizes",
    },
}
"""The scripts by the folder of keras.io that has examples of their kind."""
