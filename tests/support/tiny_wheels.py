"""Wheels of a module with one constant, as a build would write them."""

import base64
import hashlib
import zipfile
from collections.abc import Iterable
from pathlib import Path


def tiny_wheel(
    folder: Path, name: str, version: str = "1.0", *, requires: Iterable[str] = (), tag: str = "py3-none-any"
) -> Path:
    """Write the wheel of a module `name` with `VERSION`; it depends on the distributions `requires`."""
    info = f"{name}-{version}.dist-info"
    metadata = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    metadata += [f"Requires-Dist: {each}" for each in requires]
    files = {
        f"{name}.py": f"VERSION = {version!r}\n",
        f"{info}/METADATA": "\n".join(metadata) + "\n",
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: {tag}\n",
    }
    record = "".join(f"{path},sha256={_digest(text)},{len(text)}\n" for path, text in files.items())
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{version}-{tag}.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for name_in_wheel, text in (files | {f"{info}/RECORD": f"{record}{info}/RECORD,,\n"}).items():
            wheel.writestr(zipfile.ZipInfo(name_in_wheel), text)
    return path


def sha256(path: Path) -> str:
    """Return the hash of a file, as in a file of requirements."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
