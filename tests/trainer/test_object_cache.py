"""Copies of objects: complete or absent, whatever the server, the network, the disk and other processes do."""

import errno
import multiprocessing
import os
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from support.faulty_server import Fault, FaultyServer, faulty_server
from support.object_download import download_together
from support.object_servers import ObjectServer

from tfdist.contract import ExitCode
from tfdist_trainer.data.object_cache import DIRECTORY_ENV, DownloadCache
from tfdist_trainer.errors import ConfigurationError, DataMissingError, StorageError
from tfdist_trainer.storage.object_store import Bucket

CONTENT = np.arange(750_000, dtype="<u4").tobytes()  # no two parts are equal
GIB = 2**30
RETRY = {
    "max_retries": 4,
    "retry_timeout": timedelta(seconds=60),
    "backoff": {"init_backoff": timedelta(milliseconds=5)},
}


@pytest.fixture
def proxy(object_server: ObjectServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultyServer]:
    """A proxy to the server, which the environment of this process names."""
    with faulty_server(object_server.url, keep_host=object_server.scheme == "s3") as made:
        for name, value in object_server.environment(made.url).items():
            monkeypatch.setenv(name, value)
        yield made


@pytest.fixture
def url(proxy: FaultyServer, object_server: ObjectServer, tmp_path: Path) -> str:  # noqa: ARG001  the environment
    """An object of the test."""
    return object_server.put(f"{tmp_path.name}/train.csv", CONTENT)


@pytest.fixture
def open_cache(tmp_path: Path) -> Callable[..., DownloadCache]:
    """A function that returns the cache of a new process: all of them share one directory."""
    bucket = partial(Bucket, read_timeout=timedelta(seconds=1), retry=RETRY)
    return lambda **options: DownloadCache(tmp_path / "cache", open_bucket=bucket, **options)


def key_of(url: str) -> str:
    return url.split("/", 3)[3]


def gets(proxy: FaultyServer) -> int:
    """Return the number of requests for the object, and not for its folder."""
    return sum("train" in request and "list-type" not in request for request in proxy.requests)


FAULTS = {
    "503 three times": ([Fault("status", 3)], 4),
    "429 once": ([Fault("status", 1, status=429)], 2),
    "a body that is cut off in its middle": ([Fault("cut", 1, after_bytes=1_500_000)], 2),
    "a body that is cut off more often than the library repeats": ([Fault("cut", 12, after_bytes=200_000)], 13),
    "a body that stops in its middle": ([Fault("stall", 1, after_bytes=1_500_000)], 2),
    "an answer that never begins": ([Fault("stall", 1)], 2),
}


@pytest.mark.parametrize(("faults", "requests"), FAULTS.values(), ids=FAULTS.keys())
def test_an_object_is_downloaded_whole_in_spite_of(
    faults: list[Fault], requests: int, url: str, proxy: FaultyServer, open_cache: Callable[..., DownloadCache]
) -> None:
    cache = open_cache()
    assert cache.matches(url) == [url]
    proxy.faults = [Fault(each.kind, each.times, "train", each.status, each.after_bytes) for each in faults]
    assert cache.path(url).read_bytes() == CONTENT
    assert gets(proxy) == requests
    assert not any(fault.times for fault in proxy.faults)


@pytest.mark.parametrize("fault", [Fault("status", 2, "list-type"), Fault("cut", 2, "list-type", after_bytes=150)])
def test_a_folder_is_listed_again_after_an_interruption(
    fault: Fault, url: str, proxy: FaultyServer, open_cache: Callable[..., DownloadCache]
) -> None:
    proxy.faults = [Fault(fault.kind, fault.times, fault.target, fault.status, fault.after_bytes)]
    assert open_cache().matches(url) == [url]
    assert proxy.count("list-type") == 3


def test_an_error_that_stays_ends_with_the_address_of_the_server_and_leaves_no_copy(
    url: str, proxy: FaultyServer, open_cache: Callable[..., DownloadCache]
) -> None:
    cache = open_cache()
    cache.matches(url)
    proxy.faults = [Fault("status", 1000, "train")]
    with pytest.raises(
        StorageError, match=rf"^{url}: cannot be read, after 4 retries: HTTP 503; check .*={proxy.url}$"
    ):
        cache.path(url)
    assert gets(proxy) == 5
    proxy.faults = [Fault("cut", 1000, "train", after_bytes=0)]
    with pytest.raises(StorageError, match=rf"^{url}: the response was cut off; check .*={proxy.url}$"):
        cache.path(url)
    proxy.faults = []
    assert cache.path(url).read_bytes() == CONTENT


def test_a_denied_object_is_not_requested_again(
    url: str, proxy: FaultyServer, open_cache: Callable[..., DownloadCache]
) -> None:
    cache = open_cache()
    cache.matches(url)
    proxy.faults = [Fault("status", 1000, "train", status=403)]
    with pytest.raises(ConfigurationError, match=rf"^{url}: access is denied: HTTP 403; .*; it needs s.*"):
        cache.path(url)
    assert gets(proxy) == 1


@pytest.mark.parametrize(("host", "path"), [("127.0.0.1:1", ""), ("no-such-host.invalid", "")])
def test_a_server_that_cannot_be_reached_is_named(
    host: str, path: str, object_server: ObjectServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, value in object_server.environment(f"http://{host}{path}").items():
        monkeypatch.setenv(name, value)
    once = {"max_retries": 1, "retry_timeout": timedelta(seconds=10)}
    cache = DownloadCache(tmp_path, open_bucket=partial(Bucket, retry=once))
    message = rf"training-data: cannot be read, after 1 retries: no answer; check the server, .*=http://{host}$"
    with pytest.raises(StorageError, match=message) as raised:
        cache.matches(object_server.address("train.csv"))
    assert raised.value.exit_code is ExitCode.STORAGE


def test_a_copy_is_used_by_the_next_process(
    url: str, proxy: FaultyServer, open_cache: Callable[..., DownloadCache]
) -> None:
    first, second = open_cache(), open_cache()
    assert first.path(url) == second.path(url)
    assert gets(proxy) == 1


def test_an_object_that_was_replaced_is_another_file(
    url: str, object_server: ObjectServer, open_cache: Callable[..., DownloadCache]
) -> None:
    before = open_cache()
    old = before.path(url)
    changed = bytes(reversed(CONTENT))  # of the same size
    object_server.put(key_of(url), changed)
    assert open_cache().path(url).read_bytes() == changed
    assert before.path(url) == old  # a running process keeps what it has
    assert old.read_bytes() == CONTENT


def test_an_object_that_is_replaced_between_listing_and_reading_is_an_error(
    url: str, object_server: ObjectServer, open_cache: Callable[..., DownloadCache], tmp_path: Path
) -> None:
    cache = open_cache()
    cache.matches(url)
    object_server.put(key_of(url), bytes(reversed(CONTENT)))
    with pytest.raises(StorageError, match=f"^{url}: has changed since it was listed; a restarted job reads the new o"):
        cache.path(url)
    assert [each for each in (tmp_path / "cache").iterdir() if not each.name.endswith(".partial")] == []


def test_an_object_that_is_deleted_after_it_was_listed_is_missing_data(
    url: str, object_server: ObjectServer, open_cache: Callable[..., DownloadCache]
) -> None:
    cache = open_cache()
    cache.matches(url)
    object_server.delete(key_of(url))
    with pytest.raises(DataMissingError, match=f"^{url}: there is no such object; check its name and the server, "):
        cache.path(url)


def test_empty_objects_and_names_of_any_length_have_copies(
    object_server: ObjectServer, url: str, open_cache: Callable[..., DownloadCache]
) -> None:
    folder = key_of(url).rpartition("/")[0]
    for key in (f"{folder}/empty", f"{folder}/{'ü' * 100}"):
        wanted = object_server.put(key, b"")
        assert open_cache().path(wanted).read_bytes() == b""


def test_a_broken_copy_is_downloaded_again(url: str, open_cache: Callable[..., DownloadCache]) -> None:
    path = open_cache().path(url)
    path.write_bytes(CONTENT[:100])
    assert open_cache().path(url).read_bytes() == CONTENT


def test_a_link_in_the_directory_is_neither_a_copy_nor_written_through(
    url: str, open_cache: Callable[..., DownloadCache], tmp_path: Path
) -> None:
    """Given links to a file of the same size, under the names of the copy and of its temporary file."""
    path = open_cache().path(url)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(bytes(len(CONTENT)))
    path.unlink()
    path.symlink_to(elsewhere)
    assert open_cache().path(url).read_bytes() == CONTENT
    path.unlink()
    path.with_name(f"{path.name}.partial").symlink_to(elsewhere)
    with pytest.raises(StorageError, match=r"cannot write its copy in .*/cache: Too many levels of symbolic links"):
        open_cache().path(url)
    assert elsewhere.read_bytes() == bytes(len(CONTENT))


def test_processes_that_start_together_download_each_object_once(
    object_server: ObjectServer, url: str, proxy: FaultyServer, tmp_path: Path
) -> None:
    folder = key_of(url).rpartition("/")[0]
    names = [object_server.address(f"{folder}/train-{number}") for number in range(12)]
    for name in names:
        object_server.put(key_of(name), CONTENT + name.encode())
    proxy.requests.clear()
    started = multiprocessing.get_context("spawn")
    ready, results = started.Barrier(3), started.Queue()
    given = (names, str(tmp_path / "cache"), ready, results)
    processes = [started.Process(target=download_together, args=given) for _ in range(3)]
    for process in processes:
        process.start()
    assert [results.get(timeout=120) for _ in processes] == [[CONTENT + name.encode() for name in names]] * 3
    for process in processes:
        process.join()
    assert gets(proxy) == len(names)
    assert len(list((tmp_path / "cache").iterdir())) == len(names)


def test_the_copy_of_a_process_that_was_killed_is_downloaded_again(
    url: str, open_cache: Callable[..., DownloadCache]
) -> None:
    path = open_cache().path(url)
    path.rename(path.with_name(f"{path.name}.partial"))
    path.with_name(f"{path.name}.partial").write_bytes(bytes(5_000_000))
    assert open_cache().path(url).read_bytes() == CONTENT
    assert len(list(path.parent.iterdir())) == 1


@pytest.mark.parametrize(
    ("total", "error", "numbers"),
    [
        (10 * GIB, StorageError, r"copies need 2.9 MiB, and .*/cache has 1.0 MiB free of 10.0 GiB"),
        (2 * 2**20, ConfigurationError, r"copies need 2.9 MiB, and .*/cache has 1.0 MiB free of 2.0 MiB"),
    ],
    ids=["others use the disk", "the disk is too small"],
)
def test_objects_that_do_not_fit_are_an_error_before_the_download(
    total: int, error: type[Exception], numbers: str, url: str, proxy: FaultyServer,
    open_cache: Callable[..., DownloadCache],
) -> None:  # fmt: skip
    cache = open_cache(disk_usage=lambda _: (total, total - 2**20, 2**20))
    message = (
        rf"^{url}: {numbers}; mount a larger volume, such as an ephemeral one, and set {DIRECTORY_ENV} to its path$"
    )
    with pytest.raises(error, match=message):
        cache.path(url)
    assert gets(proxy) == 0


@pytest.mark.parametrize(
    ("number", "error", "remedy"),
    [
        (errno.ENOSPC, StorageError, f"No space left on device; mount .* and set {DIRECTORY_ENV} to its path"),
        (
            errno.EACCES,
            ConfigurationError,
            r"Permission denied; set fsGroup, so that the volume is writable for user \d+",
        ),
        (errno.EIO, StorageError, "Input/output error"),
    ],
)
def test_a_copy_that_cannot_be_written_is_an_error_with_the_remedy(
    number: int,
    error: type[Exception],
    remedy: str,
    url: str,
    monkeypatch: pytest.MonkeyPatch,
    open_cache: Callable[..., DownloadCache],
) -> None:
    def fail(_: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(error, match=rf"^{url}: cannot write its copy in .*/cache: {remedy}$"):
        open_cache().path(url)


def test_a_cache_directory_that_cannot_be_created_is_an_error_of_the_configuration(url: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match=rf"^{DIRECTORY_ENV}: cannot create {tmp_path}/file/cache: Not a dir"):
        DownloadCache(tmp_path / "file" / "cache").path(url)
