"""Builds the project's container images and brings them into a cluster, with or without a registry.

An image is named after its content: `tfdist/controller:<hash>` of the Dockerfile, the locked requirements, the
sources and the base. An archive `<state>/images/<name>-<hash>.tar` that exists is therefore complete and right:
it is written under another name and renamed, and nothing ever changes it. Whatever was cut off is done again.
"""
