"""A Kubernetes cluster for development and tests, on any Linux machine that can fetch Go modules.

The package needs Python's standard library alone, so that it runs before anything is installed::

    PYTHONPATH=hack/cluster python3 -m tfdist_cluster up

Layers, lower ones know nothing of higher ones:

- `paths`, `versions`, `errors`, `console`, `shell`, `content`, `lock`, `process`: no knowledge of Kubernetes;
- `gobuild`, `rootfs`, `archive`, `images`, `node_image`: what is built, each part cached by its content;
- `engine`, `kind`, `control_plane`, `load`: what runs;
- `up`, `status`, `cli`: commands.

Each clone has a folder for running processes, and each user one for build outputs (`paths.State`); both may be deleted
when nothing runs.
"""
