"""Functions that tests submit as jobs: their module is sent with them, so it imports nothing of the tests."""

import json
import os
import signal
import time
from pathlib import Path

import tfdist


@tfdist.job(workers=2)
def train(lr: float, layers: list[int] | None = None) -> dict[str, object]:
    """Print the arguments, and return them."""
    print("trained with", lr, layers)
    return {"lr": lr, "layers": layers}


@tfdist.job(workers=2, spec={"runPolicy": {"backoffLimit": 1}})
def train_through_a_kill(marker: str) -> str:
    """Kill the second worker once, and return how often the first one was called."""
    index = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
    with Path(f"{marker}-{index}").open("a+") as file:
        file.write("x")
        file.flush()
        file.seek(0)
        calls = len(file.read())
    if calls == 1:
        while not Path(f"{marker}-0").exists():
            time.sleep(0.01)
        if index == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(600)
    return f"called {calls} times"


@tfdist.job(workers=2, spec={"resources": {"requests": {"cpu": "100m", "memory": "300Mi"}}})
def train_on_pods(number: int, seconds: float = 0.0) -> dict[str, int]:
    """Print the number, wait, and return it with the index of this worker."""
    print("call of", number, flush=True)
    time.sleep(seconds)
    config = json.loads(os.environ.get("TF_CONFIG") or '{"task": {"index": 0}}')
    return {"number": number, "worker": config["task"]["index"]}
