"""Declaration of the commands and their options, by subject."""
