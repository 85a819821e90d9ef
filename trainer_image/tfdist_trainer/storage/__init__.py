"""Folders that training writes to: in a file system (`FileFolder`) or an object store (`ObjectFolder`)."""
