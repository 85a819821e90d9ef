"""In-place restart of a gang: the launcher is process 1 of every replica.

Each launcher runs the replica's training process as a child and keeps a connection to the launcher of member 0, the
leader. When a training process fails, the leader has all of them stopped and starts the next *round*: new training
processes in the same pods. Each is a fork of a process that has imported TensorFlow, so a round needs no new pod,
image, interpreter or import.

The package does not depend on Kubernetes: its settings are in `TFDIST_JOB` (`tfdist.contract.LaunchSettings`).
"""
