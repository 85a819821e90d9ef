"""The rules of a TFDistSweep, all of them pure functions: the values and the job of each trial, and early stopping."""
