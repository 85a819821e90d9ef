"""Prints a table of suites with their tests and times: `python3 tests/suite_times.py FOLDER`.

`FOLDER` holds a JUnit report for each suite, as `pytest --junitxml` writes it. Suites run in parallel, so their times
do not add up to the time of `make test`.
"""

import pathlib
import sys
import xml.etree.ElementTree as ET
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Suite:
    """What one run of pytest reported."""

    name: str
    tests: int
    failed: int
    skipped: int
    seconds: float

    @classmethod
    def read(cls, report: pathlib.Path) -> "Suite":
        """Read a JUnit report.

        Raises:
            xml.etree.ElementTree.ParseError: the run was killed while it wrote the report.
        """
        root = ET.parse(report).getroot()  # noqa: S314  written by pytest on this machine
        counts = {key: sum(int(s.get(key, 0)) for s in root) for key in ("tests", "failures", "errors", "skipped")}
        return cls(
            name=report.stem,
            tests=counts["tests"],
            failed=counts["failures"] + counts["errors"],
            skipped=counts["skipped"],
            seconds=sum(float(s.get("time", 0)) for s in root),
        )

    def row(self) -> str:
        """Return the suite's line of the table."""
        minutes, seconds = divmod(round(self.seconds), 60)
        passed = self.tests - self.failed - self.skipped
        return f"{self.name:<14}{passed:>8}{self.failed:>8}{self.skipped:>9}{minutes:>6}:{seconds:02}"


def main(folder: pathlib.Path) -> None:
    """Print the table."""
    suites = [Suite.read(report) for report in sorted(folder.glob("*.xml"))]
    print(f"\n{'suite':<14}{'passed':>8}{'failed':>8}{'skipped':>9}{'min:s':>9}")
    for suite in sorted(suites, key=lambda each: -each.seconds):
        print(suite.row())


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
