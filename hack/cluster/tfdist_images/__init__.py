"""Builds the project's container images and brings them into a cluster, with or without a registry.

An image is named after its content: `tfdist/controller:<hash>` of the Dockerfile, the locked requirements, the
sources and the base. An archive `<state>/images/<name>-<hash>.tar` that exists is therefore complete and current:
it is written under a temporary name and renamed, and nothing ever changes it. An interrupted build starts again.
"""
