"""What tests of several kinds share: factories of objects, and real servers and controllers to test against."""
