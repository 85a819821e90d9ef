"""What a process downloads next to others; a new interpreter imports it by this name."""

from pathlib import Path
from typing import Any

from tfdist_trainer.data.object_cache import DownloadCache


def download_together(names: list[str], directory: str, ready: Any, results: Any) -> None:
    """Download the objects `names` when all processes are `ready`, and put their contents into `results`."""
    cache = DownloadCache(Path(directory))
    for name in names:
        cache.matches(name)
    ready.wait(60)
    cache.download(names)
    results.put([cache.path(name).read_bytes() for name in names])
