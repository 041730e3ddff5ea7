"""Options of the whole test suite."""

import pytest


def pytest_addoption(parser):
    parser.addoption(
        "--update-golden", action="store_true", help="write golden files anew instead of comparing"
    )


@pytest.fixture
def update_golden(request):
    """Whether golden files are to be written."""
    return request.config.getoption("--update-golden")
