"""These tests are about processes: none is a copy."""

from collections.abc import Iterator

import pytest

from kit.forks import fresh


@pytest.fixture(scope="module", autouse=True)
def _fresh() -> Iterator[None]:
    with fresh():
        yield
