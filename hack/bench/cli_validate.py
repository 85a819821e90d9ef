"""How long the command takes to start, and to check a file of 1,000 documents: `python hack/bench/cli_validate.py`.

Prints the best of three runs, of whole processes, so that starting Python and importing the models are counted.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

DOCUMENTS = 1000
RUNS = 3
JOB = """\
apiVersion: tfdist.dev/v1
kind: TFDistJob
metadata:
  name: job-{number}
  namespace: team-a
spec:
  image: registry.example.com/team/train:7
  command: [tfdist-launch, python, -m, team.train]
  env:
  - name: LOG_LEVEL
    value: "2"
  - {{name: DATA, value: /data/train}}
  chief:
    resources:
      limits: {{cpu: 2, memory: 4Gi}}
  worker:
    replicas: 3
    resources:
      limits: {{cpu: 2, memory: 4Gi}}
  checkpoint:
    directory: /ckpt/{{name}}
    everySteps: 100
  evaluation:
    mode: AfterTraining
  runPolicy:
    backoffLimit: 6
  volumes:
  - name: shared
    persistentVolumeClaim: {{claimName: shared}}
  volumeMounts:
  - {{name: shared, mountPath: /ckpt}}
"""


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as folder:
        single_file, many_file = Path(folder, "one.yaml"), Path(folder, "many.yaml")
        single_file.write_text(JOB.format(number=0))
        many_file.write_text("---\n".join(JOB.format(number=number) for number in range(DOCUMENTS)))
        print(f"tfdist --help                         {best('--help'):6.3f} s")
        print(f"tfdist validate, 1 document           {best('validate', str(single_file)):6.3f} s")
        print(f"tfdist validate, {DOCUMENTS} documents       {best('validate', str(many_file)):6.3f} s")


def best(*arguments: str) -> float:
    """Return the shortest of some runs of the command in seconds."""
    return min(seconds(*arguments) for _ in range(RUNS))


def seconds(*arguments: str) -> float:
    """Return how long the command takes."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-m", "tfdist.cli", *arguments], check=True, capture_output=True)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
