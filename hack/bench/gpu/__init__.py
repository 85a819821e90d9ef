"""Measures the trainer on a GPU, or in small form on the CPU, which shows that the measurement works."""
