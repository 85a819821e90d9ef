"""What Keras writes as many operations, and TensorFlow has as one: faster steps, and less to trace with each start."""
