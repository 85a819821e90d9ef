"""Measures the trainer and the plain TensorFlow loop that an expert would write for the same model and data.

Both run in one process, or one pair of processes, and take turns of a second or two, so that whatever else the
machine does affects both. Nothing of it is ever asserted in a test.
"""
