"""Addresses, and what is said where there is no Ray."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from autosched.errors import ConfigError
from autosched.measure.cluster.connect import connect, require_address


@pytest.mark.parametrize(
    "address", ["auto", "local", "head:6379", "ray://10.0.0.1:10001", "ray://[::1]:10001"]
)
def test_addresses(address: str) -> None:
    assert require_address("--ray", address) == address


@pytest.mark.parametrize("address", ["", "head", "http://head:1", "ray://head", "a b:1", "'x':1"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(ConfigError, match=r"^--ray: expected ray://HOST:PORT, .*found"):
        require_address("--ray", address)


def test_without_ray_the_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "ray"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "autosched.measure.cluster.ray_link", raising=False)
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(
        ConfigError, match=r"ray is not installed; .*pip install 'autosched\[ray\]'"
    ):
        connect("auto")


def test_a_ray_that_is_broken_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "ray"]:
        monkeypatch.delitem(sys.modules, name)
    (tmp_path / "ray.py").write_text("raise OSError('bad')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(
        ConfigError, match=r"^ray is installed and cannot be imported \(OSError: bad"
    ):
        connect("auto")
