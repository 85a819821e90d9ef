"""What Keras' own tests do under two workers if they do not pass, and why."""

from typing import Final

_RAGGED: Final = "`predict` gathers the outputs of all workers by `Strategy.gather`, which takes no RaggedTensor"
_VALUE_OF_A_MIRRORED_VARIABLE: Final = "it converts `variable.value` to an array, which no strategy supports"
_LEFT_TO_THE_CHIEF: Final = "it reads private attributes of its `BackupAndRestore`, which only the chief calls"
_OWN_FOLDER: Final = "it reads a file of the chief in a temporary folder that each worker makes for itself"
_OWN_STRATEGY: Final = "it makes a strategy of its own in the scope of the other one"
_ONLY_COMPILES: Final = "it compiles models, or builds them by a call, and trains none"
_ONLY_CALLBACK: Final = "it only makes the callback, or calls its methods"

FAILS: Final[dict[str, str]] = {
    **{f"TestTrainer::test_trainer_with_raggeds_{kind}": _RAGGED for kind in ("functional", "layer", "model")},
    "BackupAndRestoreCallbackTest::test_backup_corrupted": _LEFT_TO_THE_CHIEF,
    "BackupAndRestoreCallbackTest::test_best_case_epoch": _LEFT_TO_THE_CHIEF,
    "BackupAndRestoreCallbackTest::test_best_case_step": _LEFT_TO_THE_CHIEF,
    "ReduceLROnPlateauTest::test_cooldown": _VALUE_OF_A_MIRRORED_VARIABLE,
    "CSVLoggerTest::test_CSVLogger": _OWN_FOLDER,
    "CSVLoggerTest::test_stop_training_csv": _OWN_FOLDER,
    "SwapEMAWeightsTest::test_swap_ema_weights_on_epoch": _OWN_FOLDER,
    "SwapEMAWeightsTest::test_swap_ema_weights_with_tf_distribute": _OWN_STRATEGY,
}
"""Tests that fail, each with its reason. One that passes is an error too."""

DEPENDS_ON_SPEED: Final[dict[str, str]] = {
    "BackupAndRestoreCallbackTest::test_model_deleted_case_epoch": "a worker expects that the backup is deleted, which "
    "the chief may not have done yet",
    "ModelCheckpointTest::test_model_checkpoint_options": "a worker expects a file that the chief may not have "
    "written yet: only loading a file waits for it",
}
"""Tests that pass if the chief is not the slower one, each with its reason."""

ON_ONE_REPLICA: Final[dict[str, str]] = {
    "TestTrainer::test_jit_compile_with_tf_determinism": _ONLY_COMPILES,
    "TestTrainer::test_multiple_compiles": _ONLY_COMPILES,
    "TestTrainer::test_nested_trainer_metrics": _ONLY_COMPILES,
    "TestTrainer::test_nested_trainer_metrics_without_compile": _ONLY_COMPILES,
    "TestTrainer::test_symbolic_build": _ONLY_COMPILES,
    "BackupAndRestoreCallbackTest::test_backup_dir_empty_error": _ONLY_CALLBACK,
    "BackupAndRestoreCallbackTest::test_backup_dir_none_error": _ONLY_CALLBACK,
    "BackupAndRestoreCallbackTest::test_save_freq_unknown_error": _ONLY_CALLBACK,
    "EarlyStoppingTest::test_early_stopping_final_weights_when_restoring_model_weights": _ONLY_CALLBACK,
    "EarlyStoppingTest::test_early_stopping_patience": _ONLY_CALLBACK,
    "EarlyStoppingTest::test_state_reset_across_fit_calls": _ONLY_CALLBACK,
    "LambdaCallbackTest::test_lambda_callback_no_args": _ONLY_CALLBACK,
    "LambdaCallbackTest::test_lambda_callback_with_additional_kwargs": _ONLY_CALLBACK,
    "MonitorCallbackTest::test_min_delta": _ONLY_CALLBACK,
    "ReduceLROnPlateauTest::test_state_reset_across_fit_calls": _ONLY_CALLBACK,
    "TestTensorBoardV2::test_TensorBoard_non_blocking": _ONLY_CALLBACK,
    "TestTensorBoardV2::test_TensorBoard_write_model": _ONLY_COMPILES,
    "TestTensorBoardV2::test_TensorBoard_write_sequential_model_no_input_shape": _ONLY_COMPILES,
    "TestTensorBoardV2::test_TensorBoard_write_sequential_model_with_input_shape": _ONLY_COMPILES,
}
"""Tests that run no step under the strategy, each with its reason."""
