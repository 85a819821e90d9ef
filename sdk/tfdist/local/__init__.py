"""A job as processes of one machine: `tfdist run --local`.

The processes are made of the pods that the controller would make (`tfdist.render`): same command, same variables,
same contract. What differs is put in its place afterwards: addresses become ports of this machine (`ports`), mounts
become folders (`volumes`, `paths`), and what only a cluster has is said (`notes`). `plan` is pure; `processes`, `run`
and `state` touch the machine; `keeper` is the small process around each replica that leaves nothing behind.
"""
