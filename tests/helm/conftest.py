"""helm as a program, and the chart as it renders."""

import pathlib

import pytest
from support.chart import Chart

from tfdist_demo.helm import Helm, program


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="store what the chart makes now as what it should")


@pytest.fixture(scope="session")
def helm() -> Helm:
    return Helm(program(), kubeconfig="/nonexistent")


@pytest.fixture
def chart(helm: Helm, tmp_path: pathlib.Path) -> Chart:
    return Chart(helm, tmp_path)
