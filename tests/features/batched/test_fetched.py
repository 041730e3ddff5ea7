"""Texts of fetched tiles are those of lowering, whichever numbers divide which."""

from __future__ import annotations

import numpy as np
import pytest

from autosched.features.batched.axis_text import StageText
from autosched.features.batched.fetched import fetched
from autosched.features.batched.plan import Loops
from autosched.features.batched.stage_alone import written_out
from kit.fetching_loops import fetching_loops

LOOPS = {axes: fetching_loops(axes) for axes in range(2, 7)}
EXTENTS = (1, 1, 2, 3, 4, 5, 6, 7, 9, 12, 16, 58)
WIDTHS = (2, 4, 7, 12, 28, 32, 49, 56, 96, 128, 392)


def _said(found: StageText) -> object:
    names = {v.name: name for v, name in zip(found.variables, "otv", strict=True) if v is not None}

    def text(e: object) -> str:
        written = repr(e)
        for old, new in names.items():
            written = written.replace(old, new)
        return written

    axes = [
        (text(a.raw), text(a.text), [*map(text, a.terms)], a.start, a.ends, a.used, a.counts)
        for a in found.axes
    ]
    return found.key, list(names.values()), [*map(text, found.conditions)], axes


@pytest.mark.parametrize("as_ansor", [True, False])
@pytest.mark.parametrize("vectors", ["none", "whole", "any"])
def test_as_lowering_writes_them(vectors: str, as_ansor: bool) -> None:
    rng = np.random.default_rng(3)
    compared = 0
    while compared < 60:
        axes = rng.choice(EXTENTS, rng.integers(2, 5)).tolist()
        width = int(rng.choice(WIDTHS))
        count = int(np.prod(axes))
        if not 1 < count <= 4000:
            continue
        some = [k for k in range(2, 33) if count % k == 0 or (vectors == "any" and k < count)]
        lanes = 1 if vectors == "none" else int(rng.choice(some or [1]))
        threads = -(-count // lanes)
        sizes = [-(-threads // width), width, lanes]
        found = fetched(LOOPS[len(axes)], [*axes, lanes, width], sizes, as_ansor)
        if found is not None:
            compared += 1
            wanted = written_out(LOOPS[len(axes)], [*axes, lanes, width], sizes, as_ansor)
            assert _said(found) == _said(wanted), (axes, lanes, width)


@pytest.mark.parametrize("as_ansor", [True, False])
@pytest.mark.parametrize(
    ("axes", "lanes", "width"),
    [((3, 2, 2, 2, 11, 1), 2, 144), ((7, 2, 2, 1, 5, 4), 10, 128), ((2, 8, 2, 7, 6), 14, 160)],
)
def test_a_quotient_of_whole_vectors_follows_one_that_is_torn(
    axes: tuple[int, ...], lanes: int, width: int, as_ansor: bool
) -> None:
    """Ansor leaves (t * 2 + v) % 44 // 22, of f // 11 // 2, but makes t % 44 // 22 of the next."""
    loops, numbers = LOOPS[len(axes)], [*axes, lanes, width]
    found = fetched(loops, numbers, [1, width, lanes], as_ansor)
    assert found is not None
    assert _said(found) == _said(written_out(loops, numbers, [1, width, lanes], as_ansor))


@pytest.mark.parametrize(
    ("loops", "numbers", "sizes"),
    [
        (LOOPS[2], [12, 6, 4, 9], [2, 9, 4]),
        (LOOPS[2], [3, 2, 4, 2], [1, 2, 4]),
        (LOOPS[2]._replace(leaves=(4, 5, 6)), [6, 8, 1, 7], [1, 7, 7]),
        (LOOPS[2]._replace(kinds=(5, 6, 2)), [6, 8, 1, 7], [7, 7, 1]),
        (LOOPS[2], [6, 8, 64, 7], [1, 7, 48]),
        (LOOPS[3], [1, 1, 1, 1, 49], [1, 49, 1]),
    ],
    ids=[
        "a round of rows",
        "several rows and a part of all",
        "order",
        "blocks",
        "fewer lanes",
        "one element",
    ],
)
def test_others_are_left_to_lowering(loops: Loops, numbers: list[int], sizes: list[int]) -> None:
    assert fetched(loops, numbers, sizes) is None
