"""Decisions: what an exit means, whether and when to restart. Pure."""
