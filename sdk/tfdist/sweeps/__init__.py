"""The rules of a TFDistSweep, all of them pure functions: the values of each trial, and which trials stop early."""
