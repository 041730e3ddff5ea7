"""What each kind of function is compiled for."""

from __future__ import annotations

from typing import Any

import pytest

from autosched.errors import ConfigError
from autosched.tir.parser import parse_func
from autosched.transform.framework.function_target import (
    FunctionTarget,
    is_host_function,
    target_of,
)
from autosched.transform.host.bind_target import BindTarget

PLAIN = parse_func("def main(n: int32):\n    evaluate(1)")
BIND = BindTarget(kind="cuda", host="cpu")


@pytest.mark.parametrize(
    ("attrs", "bound"),
    [
        ({}, {"kind": "cuda", "host": "cpu"}),
        ({"global_symbol": None}, "cuda"),
        ({"tir.is_host_func": True}, {"kind": "cpu", "host": "cpu"}),
        ({"target": "rocm"}, {"kind": "rocm", "host": "cpu"}),
        (
            {"target": {"kind": "cuda", "arch": "sm_80"}},
            {"kind": "cuda", "arch": "sm_80", "host": "cpu"},
        ),
    ],
)
def test_functions_get_a_target(attrs: dict[str, Any], bound: Any) -> None:
    func = PLAIN.with_attrs(**attrs)
    if attrs.get("global_symbol", "") is None:
        del func.attrs["global_symbol"]
    after = BIND(func)
    assert after.attrs["target"] == bound
    assert "tir.is_host_func" not in after.attrs
    assert BIND(after) is after


def test_a_target_that_is_complete_stays() -> None:
    private = PLAIN.with_attrs(target="cuda")
    del private.attrs["global_symbol"]
    assert BIND(private) is private
    with_host = PLAIN.with_attrs(target={"kind": "cuda", "host": {"kind": "llvm", "mtriple": "x"}})
    assert BIND(with_host) is with_host
    target = target_of(with_host)
    assert target is not None and target.host is not None
    assert target.host.options == {"mtriple": "x"} and target.without_host().attribute == "cuda"


def test_without_a_host() -> None:
    assert BindTarget(kind="c", host="")(PLAIN).attrs["target"] == "c"


def test_which_functions_are_the_hosts() -> None:
    kinds = {"cpu": True, "llvm": True, "c": True, "cuda": False, "hexagon": False}
    for kind, expected in kinds.items():
        assert is_host_function(PLAIN.with_attrs(target=kind)) is expected
    assert not is_host_function(PLAIN)
    assert is_host_function(PLAIN.with_attrs(**{"tir.is_host_func": True, "target": "cuda"}))


def test_a_kind_that_is_not_known() -> None:
    with pytest.raises(ConfigError, match="found the kind 'cdua', expected one of c, cpu, cuda"):
        FunctionTarget.of({"kind": "cdua"})
