"""The `tf.distribute` strategy of a gang, and the rendezvous and collectives of its members."""
