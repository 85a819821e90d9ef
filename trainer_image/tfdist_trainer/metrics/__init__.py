"""Additive metrics: sums that are divided only at the end, so that they do not depend on the partition of the data."""
