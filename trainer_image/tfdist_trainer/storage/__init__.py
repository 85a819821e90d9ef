"""Folders that training writes to and reads from: in a file system (`FileFolder`)."""
