"""A job as processes of one machine: `tfdist run --local`.

The controller's planner decides which pods exist (`tfdist.planner`); each becomes a process with the same command,
variables and contract. Addresses become ports of this machine (`ports`), mounts become folders (`volumes`, `paths`),
and settings without an effect outside a cluster are reported (`unsupported`).

| module | part |
|---|---|
| `job`, `commands`, `replica_plan`, `env`, `gpus` | job -> processes to start; pure |
| `engine` | observes, plans with `tfdist.planner`, executes the plans |
| `pods`, `reports` | processes and their reports as the planner sees them |
| `run` | runs the engine; reports the end |
| `machine`, `background` | this machine; a run in a process of its own, which its client reads from the files |
| `processes`, `init_process` | starts, signals and reaps processes |
| `run_directory`, `logs`, `console`, `progress` | files of the run, terminal output |
"""
