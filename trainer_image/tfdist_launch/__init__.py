"""Restarts the programs of a gang in place: the launcher, process 1 of every replica.

Each replica's launcher runs the replica's program as a child and keeps a connection to that of member 0, which leads.
When a program ends where it should not, the leader has all programs stopped and starts them anew, as the next
*round*, without a new pod, image, interpreter or import: a fork of a process that has imported TensorFlow.

It knows nothing of Kubernetes: what it needs is in `TFDIST_JOB` (`tfdist.contract.LaunchSettings`).
"""
