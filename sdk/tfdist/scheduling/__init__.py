"""The systems that schedule jobs, one module each: gang schedulers, and queues. `choice` has the table of all."""
