"""The fingerprint names what decides results, and nothing that names the user."""

import getpass
import json
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from autosched.measure import environment
from autosched.measure.environment import fingerprint, fingerprint_hash


def test_what_it_holds() -> None:
    found = fingerprint()
    assert {"cpu", "cores", "memory_bytes", "system", "python", "packages"} <= found.keys()
    text = json.dumps(found)
    assert str(Path.home()) not in text
    assert getpass.getuser() not in found["system"]
    assert len(fingerprint_hash(found)) == 12
    assert fingerprint_hash(found) != fingerprint_hash({**found, "cores": -1})


@pytest.mark.parametrize(
    ("installed", "expected"),
    [
        ({"xgboost-cpu": "3.2.0"}, ("xgboost-cpu", "3.2.0")),
        ({"xgboost": "3.1.0"}, ("xgboost", "3.1.0")),
        ({}, ("xgboost", "not installed")),
    ],
)
def test_either_build_of_xgboost_is_named(
    monkeypatch: pytest.MonkeyPatch, installed: dict[str, str], expected: tuple[str, str]
) -> None:
    def version(name: str) -> str:
        if name not in installed:
            raise PackageNotFoundError(name)
        return installed[name]

    monkeypatch.setattr("importlib.metadata.version", version)
    assert environment._installed(("xgboost-cpu", "xgboost")) == expected
