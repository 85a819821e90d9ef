"""Names of an installation in a cluster; pure."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Place:
    """Names of the namespaces, the release and the controller."""

    namespace: str
    """Of the jobs and their data."""
    system: str
    """The namespace of the controller."""
    release: str
    """Of the chart."""
    controller: str
    """The chart's `fullnameOverride`: the Deployment, its account and its roles."""

    @property
    def selector(self) -> str:
        """Labels of the controller's pods."""
        return f"app.kubernetes.io/name={self.controller}"


DEMO = Place("tfdist-demo", "tfdist-system", "tfdist", "tfdist-controller")
"""Names that the documentation uses: of `make demo`, and of the tests on the cluster that is made here."""
TESTS = Place("tfdist-e2e", "tfdist-e2e-system", "tfdist-e2e", "tfdist-e2e")
"""Names that the tests use on a user's cluster."""
TEST_NAMESPACES = "tfdist-e2e-"
"""Prefix of all other namespaces of the tests."""
