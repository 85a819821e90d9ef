"""How a gang computes together: the `tf.distribute` strategy, and agreements between its members."""
