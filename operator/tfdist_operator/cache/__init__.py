"""What the controller knows of the cluster: caches of objects, and the lists and watches that fill them."""
