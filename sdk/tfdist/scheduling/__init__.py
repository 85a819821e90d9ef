"""The gang schedulers and queues, one module each: objects, pod fields, discovery, and what a job waits for. Pure."""
