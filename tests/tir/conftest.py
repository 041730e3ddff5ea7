"""What tests of TIR build programs with."""

from __future__ import annotations

import pytest

from kit.programs import Programs


@pytest.fixture(scope="session")
def tir() -> type[Programs]:
    return Programs
