"""A job as processes of one machine: `tfdist run --local`.

The processes derive from the pods that the controller would create (`tfdist.render`): same command, same variables,
same contract. Addresses become ports of this machine (`ports`), mounts become folders (`volumes`, `paths`), and
settings without an effect outside a cluster are reported (`unsupported`).

| module | part |
|---|---|
| `plan`, `replica_plan`, `env`, `gpus`, `launch` | job -> processes to start; pure |
| `run` | life cycle: fetch, training, evaluation |
| `monitor`, `progress`, `status`, `outcome` | observed processes -> `status.json`, result of a gang |
| `processes`, `init_process` | starts, signals and reaps processes |
| `run_directory`, `logs`, `console` | files of the run, terminal output |
"""
