"""Finds code that nothing uses, with vulture; `make dead-code` runs it.

Fields of models and attributes of other libraries' objects are left out: their users are not in this repository. Code
that only tests use counts as used. The exit status is 1 if there is a finding, or an entry of ALLOWED without one.
"""

import fnmatch
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Final, NamedTuple

ROOT: Final = pathlib.Path(__file__).resolve().parent.parent
ALLOWED: Final = {
    "operator/*: iter_chunked": "kopf reads the body of a watch with this method of aiohttp",
    "operator/*: process_log_record": "python-json-logger calls it",
    "sdk/tfdist/api/*: _missing_": "enum calls it",
    "trainer_image/tfdist_trainer/script.py: report_returned": "the script that calls a function of the user calls it",
    "sdk/cli/hatch_build.py: *": "hatchling calls it",
    "sdk/tfdist/cli/console.py: on_broken_pipe": "Rich calls it",
    "sdk/tfdist/cli/manifests.py: ignore_aliases": "PyYAML calls it",
    "sdk/tfdist/cli/yaml_loader.py: *cend_resolver": "PyYAML calls it",
    "*/__init__.py: __[gd]*__": "Python calls it for names of a module",
    "*: on_t*": "Keras calls the methods of callbacks",
    "tests/*: reset_state": "Keras calls it",
    "*: do_[A-Z]*": "http.server calls the method of a request",
    "*: log_message": "http.server calls it",
    "hack/bench/reports.py: data_received": "asyncio calls it",
    "hack/bench/trainer/networks.py: *": "the benchmark finds its networks by name",
    "*: pytest*": "pytest finds them by name",
    "tests/*: two_devices": "a fixture that a test requests and does not read",
}
"""Reasons by path and name, both as patterns."""
PROGRAMS: Final = ("examples/*", "tests/support/*")
"""Files whose classes are programs, which jobs name in `training.program`."""


class Finding(NamedTuple):
    """Something that nothing uses."""

    path: str
    line: int
    kind: str
    name: str

    def is_outside_the_repository(self) -> bool:
        """Return whether others use it: an attribute of their object, a field of a model, the class of a program."""
        if self.kind == "class":
            return any(fnmatch.fnmatch(self.path, pattern) for pattern in PROGRAMS)
        is_field = self.kind == "variable" and (ROOT / self.path).read_text().splitlines()[self.line - 1].startswith(
            " "
        )
        return self.kind == "attribute" or is_field

    def matching(self) -> Iterator[str]:
        """Yield the entries of ALLOWED that it matches."""
        yield from (entry for entry in ALLOWED if fnmatch.fnmatch(f"{self.path}: {self.name}", entry))


def findings() -> Iterator[Finding]:
    """Yield what vulture finds."""
    found = subprocess.run(["vulture"], cwd=ROOT, capture_output=True, text=True, check=False)
    if found.stderr:
        raise RuntimeError(found.stderr)
    for path, line, kind, name in re.findall(r"^(.+?):(\d+): unused (\w+) '(\w+)'", found.stdout, re.MULTILINE):
        yield Finding(path, int(line), kind, name)


def main() -> int:
    """Print what nothing uses, and return the exit status."""
    unused = [finding for finding in findings() if not finding.is_outside_the_repository()]
    matched = {entry for finding in unused for entry in finding.matching()}
    problems = [
        f"{finding.path}:{finding.line}: nothing uses {finding.name}: delete it"
        for finding in unused
        if not any(finding.matching())
    ]
    stale = [entry for entry in ALLOWED if entry not in matched]
    problems += [f"hack/dead_code.py: nothing matches '{entry}': delete it" for entry in stale]
    print("\n".join(problems or ["dead code: none"]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
