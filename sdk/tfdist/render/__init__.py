"""From a job to the objects that run it. Pure: equal input gives byte-equal output."""
