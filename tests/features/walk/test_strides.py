"""Strides, where Ansor's heuristic is wrong and where indices are not affine."""

import pytest

from autosched.features.ansor.stride import stride_along
from autosched.features.walk.scope import Access, BufferInfo, Loop
from autosched.features.walk.strides import Strides, flat_terms
from autosched.tir import op
from autosched.tir.buffer import decl_buffer
from autosched.tir.expr import Expr, IntImm, Var
from autosched.tir.walk import free_vars

i, j, k = Var("i"), Var("j"), Var("k")
NEST = [Loop(var, 8, (0, 0), (0, 7), {}) for var in (i, j, k)]


def strides(shape: list[int], *index: Expr, realized: tuple[int, int] | None = None) -> list[int]:
    buffer = decl_buffer(shape, name="A")
    info = BufferInfo(tuple(shape), 4, buffer, realized)
    used = frozenset().union(*(free_vars(e) for e in index))
    access = Access(buffer.data, info, "kRead", [index], used)
    return Strides(NEST, {}).along(access)


def test_a_later_product_does_not_overwrite_a_coefficient() -> None:
    index = k * 128 + i * 16 + j
    assert strides([4096], index) == [16, 1, 128]
    assert stride_along([(index,)], (4096,), k) == 16  # Ansor's


def test_dimensions_multiply() -> None:
    assert strides([64, 32], i, j) == [32, 1, 0]
    assert strides([64, 32], i * 2 + k, j + i) == [65, 1, 32]


def test_a_realised_part_has_its_own_width() -> None:
    assert strides([64, 32], i, j, realized=(8, 8)) == [8, 1, 0]


def test_signs_count() -> None:
    assert strides([64], IntImm(63) - i) == [-1, 0, 0]


@pytest.mark.parametrize(
    ("index", "expected"),
    [
        (op.floordiv(i * 4 + j, IntImm(4)), [1, 0, 0]),
        (op.floormod(i * 4 + j, IntImm(4)), [0, 1, 0]),
        (op.floordiv(i, IntImm(2)) * 16 + k, [0, 0, 1]),
    ],
)
def test_divisions_step_from_the_first_iteration(index: Expr, expected: list[int]) -> None:
    assert strides([512], index) == expected


def test_what_no_variable_changes() -> None:
    buffer = decl_buffer((64, 32), name="A")
    index = i * 2 + 3, 7 - (j - 1) * 2
    access = Access(buffer.data, BufferInfo((64, 32), 4, buffer), "kRead", [index], frozenset())
    assert Strides(NEST, {}).constant(access) == 3 * 32 + 9


def test_uneven_variables_are_named() -> None:
    index = op.floordiv(i, IntImm(2)) * 16 + k
    buffer = decl_buffer((512,), name="A")
    access = Access(
        buffer.data, BufferInfo((512,), 4, buffer), "kRead", [(index,)], free_vars(index)
    )
    assert Strides(NEST, {}).uneven(access) == {i}


def test_quotients_and_remainders_that_make_up_a_whole() -> None:
    def flat(shape: tuple[int, ...], *index: Expr) -> dict[Expr, int]:
        return flat_terms(index, shape)

    assert flat((4, 7), op.floordiv(i, 7), op.floormod(i, 7)) == {i: 1}
    nested = op.floordiv(op.floormod(i, 4), 2)
    assert flat((3, 2, 2), op.floordiv(i, 4), nested, op.floormod(i, 2)) == {i: 1}
    sum_ = i * 2 + j
    assert flat((4, 7, 3), op.floordiv(sum_, 7), op.floormod(sum_, 7), k) == {i: 6, j: 3, k: 1}
    apart = op.floordiv(i, 7), op.floormod(i, 7)
    assert flat((4, 9), *apart) == {apart[0]: 9, apart[1]: 1}
    assert flat((7, 4), *reversed(apart)) == {apart[0]: 1, apart[1]: 4}
