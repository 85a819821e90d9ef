"""Metrics that are sums until the very end, so that they do not depend on who computed which part."""
