"""Compiled loops do what Python does with the same function, on integers that wrap around."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from autosched.runtime import compiled_loops
from autosched.runtime.compiled_loops import NoCodeError, compiled, ones

Ints = npt.NDArray[np.int64]
_LIMIT = 7


@compiled
def _insert(sorted_: Ints, count: int, value: int) -> None:
    """Insert a value into the first `count` ones."""
    at = count
    while at > 0 and sorted_[at - 1] > value:
        sorted_[at] = sorted_[at - 1]
        at -= 1
    sorted_[at] = value


@compiled
def _everything(numbers: Ints, table: Ints, flags: npt.NDArray[np.bool_], found: Ints) -> None:
    for k in range(len(numbers)):
        _insert(found, k, numbers[k])
    total = 0
    for n in range(1, len(table)):
        for k in range(len(numbers) - 1, -1, -1):
            if (flags[k] and not table[n, k] * 2) or k > _LIMIT:
                total += table[n, k] // 3 * (numbers[k] % 5) - (table[n, k] << k >> 1)
            elif numbers[k]:
                total ^= min(numbers[k], table[n, k]) | max(n, k) & abs(-n)
            else:
                total = -total if total < 0 else total * 0x123456789ABCDEF
        table[n, 0] = total
        flags[n] = total > 0
        flags[0] = flags[n] or numbers[1 << 40 if flags[n] else 0] < 0
    found[0] += ones(total) + k


def _arguments(seed: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(seed)
    table = rng.integers(-50, 50, (6, 20))[:, ::2]
    numbers = rng.integers(-9, 9, 10)
    return numbers, table, rng.random(10) < 0.5, np.zeros(11, np.int64)


@pytest.mark.parametrize("seed", range(20))
def test_code_does_what_python_does(seed: int) -> None:
    ours, pythons = _arguments(seed), _arguments(seed)
    _everything(*ours)
    with np.errstate(over="ignore"):
        _everything.definition(*pythons)
    assert all(np.array_equal(a, b) for a, b in zip(ours, pythons, strict=True))
    assert np.array_equal(ours[3][1:10], np.sort(ours[0])[1:])


@dataclass
class _Pair:
    numbers: Ints
    factor: int


@dataclass
class _Record:
    pair: _Pair
    found: Ints
    weight: float = 0.5


@compiled
def _multiply(pair: _Pair, k: int, into: Ints) -> None:
    into[k] = pair.numbers[k] * pair.factor


@compiled
def _add(record: _Record, pair: _Pair) -> None:
    for k in range(len(record.pair.numbers)):
        _multiply(record.pair, k, record.found)
        record.found[k] += pair.numbers[k] * pair.factor + record.pair.factor


def test_fields_of_dataclasses() -> None:
    """Arrays and integers, also of dataclasses inside, on the way to other functions, too."""
    ours, pythons = (_Record(_Pair(np.arange(4), 10), np.zeros(4, np.int64)) for _ in range(2))
    more = _Pair(np.array([5, 6, 7, 8]), 100)
    _add(ours, more)
    _add.definition(pythons, more)
    assert ours.found.tolist() == pythons.found.tolist() == [510, 620, 730, 840]


def test_other_integers_and_empty_arrays() -> None:
    @compiled
    def double(a: Ints, b: Ints) -> None:
        for k in range(len(a)):
            b[k] = a[k] + a[k]

    for dtype in (np.int8, np.int32, np.uint16):
        found = np.zeros(3, dtype)
        double(np.array([1, 2, 100], np.int16), found)
        assert found.tolist() == np.array([2, 4, 200]).astype(dtype).tolist()
    double(np.zeros(0, np.int64), np.zeros(0, np.int64))


def test_a_source_that_was_changed_is_not_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    text = inspect.getsource(_insert.definition)
    monkeypatch.setattr(inspect, "getsource", lambda _: text.replace("at > 0", "at > 1"))
    monkeypatch.setattr(compiled_loops, "loop_files", lambda: None)
    with pytest.raises(NoCodeError, match="_insert: its source has changed"):
        compiled(_insert.definition)(np.array([1, 5, 0]), 2, 3)


def test_what_is_not_compiled_is_named() -> None:
    @compiled
    def assigns(a: Ints, k: int) -> None:
        k = 2
        a[0] = k

    @compiled
    def raises(a: Ints, k: int) -> None:
        a[0] = pow(k, 2)

    @compiled
    def weighs(record: _Record, k: int) -> None:
        record.found[k] = record.weight

    @compiled
    def looks_up(record: _Record, k: int) -> None:
        record.found[k] = record.others[k]  # type: ignore[attr-defined]

    numbers = np.zeros(2, np.int64)
    record = _Record(_Pair(numbers, 1), numbers)
    for function, given, why in (
        (assigns, numbers, "a parameter that is assigned to: k"),
        (raises, numbers, "a call that is not compiled: pow"),
        (weighs, record, "an expression that is not compiled: record.weight"),
        (looks_up, record, "an array that is not compiled: record.others"),
    ):
        with pytest.raises(TypeError, match=why):
            function(given, 1)
