"""Bytes that an epoch of training reads from a bucket: of a first epoch the data once, of the next one nothing.

The records are in uncompressed TFRecord files in a server with the protocol of Amazon S3; a proxy counts the bytes. A
process iterates over one epoch, and another one over two.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from support.object_servers import ObjectServer, object_server
from support.proxy import proxy

from bench.results import Row, Target
from bench.trainer.processes import environ
from bench.trainer.resume import opened, write_records

RECORDS: Final = 60_000
ONCE: Final = Target(ratio=1.02, text="<= 2 % more than the data")


def run(folder: Path) -> list[Row]:
    """Return the megabytes of one epoch and of two, compared with the size of the files."""
    local = folder / "records"
    local.mkdir(parents=True)
    write_records(local, RECORDS)
    size = sum(path.stat().st_size for path in local.iterdir()) / 1e6
    with object_server("s3", folder / "server") as server:
        for path in local.iterdir():
            server.put(f"records/{path.name}", path.read_bytes())
        megabytes = {epochs: _megabytes(server, epochs) for epochs in (1, 2)}
    title = f"data: bytes from a bucket, {RECORDS:,} records in TFRecord files"
    names = {1: "one epoch", 2: "two epochs"}
    return [Row(f"{title}, {names[count]}", size_read, size, "MB", ONCE) for count, size_read in megabytes.items()]


def _megabytes(server: ObjectServer, epochs: int) -> float:
    """Return what a process without local copies reads in this number of epochs."""
    with proxy(server.url.replace("http", "tcp")) as proxy_server, tempfile.TemporaryDirectory() as copies:
        address = proxy_server.address.replace("https", "http")
        variables = environ() | dict(server.environment(address)) | {"TFDIST_DATA_CACHE": copies}
        command = [sys.executable, "-m", "bench.trainer.bucket", server.address("records"), str(epochs)]
        subprocess.run(command, env=os.environ | variables, check=True)
        return proxy_server.forwarded_bytes / 1e6


def main(folder: str, epochs: int) -> None:
    """Iterate over all batches of this number of epochs."""
    pipeline = opened(folder)
    iterator = pipeline.iterator(1, range(epochs))
    for _ in range(epochs * pipeline.steps):
        next(iterator)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
