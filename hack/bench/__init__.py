"""Measures the controller and the Kubeflow training operator, in one run on one API server: `make bench`.

Figures compare only within a run, since they depend on the machine and on what else it does. Each contestant runs
alone while it is measured, against a control plane of plain processes that nothing else uses.

Layers, lower ones know nothing of higher ones:

- `results`, `process`, `bulk`: figures and targets, what the kernel reports about a process, many requests at once;
- `cluster`: the control plane and its fake nodes;
- `subject`, `ours`, `peer`: who is measured;
- `create`, `lifecycle`, `steady`, `command_line`: what is measured;
- `report`, `run`: the table, the files, the command.
"""
