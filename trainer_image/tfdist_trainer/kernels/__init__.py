"""Fused TensorFlow kernels instead of the many operations of Keras: faster steps, and less to trace at each start."""
