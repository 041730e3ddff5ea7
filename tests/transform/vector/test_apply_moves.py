"""The moves of a plan on expressions."""

from collections.abc import Sequence

import pytest

from autosched.nest.core import core_of
from autosched.nest.loop_nest import Drop, Fold, LoopNest, Slice, Take, Unlane
from autosched.nest.piece import Piece
from autosched.nest.plan import plan_stores
from autosched.tir import op
from autosched.tir.buffer import decl_buffer
from autosched.tir.expr import Add, BufferLoad, IntImm, Ramp, Var
from autosched.transform.vector.apply_moves import NoVectorFormError, apply_moves, planned_nests
from autosched.transform.vector.reduction_nest import Nest
from kit.stmts import matched

A, C = decl_buffer((4096,), name="A"), decl_buffer((4096,), name="C")
I, J = Var("i"), Var("j")


def copy(*loops: tuple[Var, int]) -> Nest:
    return matched(C, I * 4 + J, BufferLoad(A, (J * 64 + I,)), *loops)


def text(found: Nest) -> str:
    loops = " ".join(f"{axis.var.name}:{axis.extent}:{axis.stride}" for axis in found.axes)
    return f"{loops} | C[{found.index}] = {found.value}"


@pytest.mark.parametrize(
    ("moves", "expected"),
    [
        ([], "i:8:4 j:4:1 | C[i * 4 + j] = A[j * 64 + i]"),
        ([Slice(0, 0, 5)], "i:5:4 j:4:1 | C[i * 4 + j] = A[j * 64 + i]"),
        (
            [Slice(0, 5, 3)],
            "i.tail:3:4 j.tail:4:1 | C[(i.tail + 5) * 4 + j.tail] = A[j.tail * 64 + (i.tail + 5)]",
        ),
        (
            [Take(1, 4)],
            "i:8:4 j:1:4 | C[ramp(i * 4 + j * 4, 1, 4)] = A[ramp(j * 4 * 64 + i, 64, 4)]",
        ),
        ([Take(1, 4), Drop((1,))], "i:8:4 | C[ramp(i * 4, 1, 4)] = A[ramp(i, 64, 4)]"),
        (
            [Take(1, 4), Drop((1,)), Unlane()],
            "i:8:4 lane:4:1 | C[i * 4 + lane] = A[i + 64 * lane]",
        ),
    ],
)
def test_text(moves: Sequence[Drop | Take | Unlane | Slice], expected: str) -> None:
    assert text(apply_moves(copy((I, 8), (J, 4)), moves)) == expected


def test_folding_leaves_the_output_out() -> None:
    total = matched(C, I, BufferLoad(C, (I,)) + BufferLoad(A, (I * 8 + J,)), (I, 4), (J, 8))
    folded = apply_moves(total, [Fold(), Take(1, 8)])
    assert folded.fold is Add
    assert (folded.index, folded.width) == (I, 8)
    assert text(folded) == "i:4:1 j:1:0 | C[i] = A[i * 8 + j * 8:i * 8 + j * 8 + 8]"


def test_a_move_without_a_vector_form_is_refused() -> None:
    at = Ramp(I * 2, IntImm(1), 2)
    pairs = matched(C, at, BufferLoad(A, (Ramp(I * 3, IntImm(1), 2),)), (I, 8))
    with pytest.raises(NoVectorFormError):
        apply_moves(pairs, [Take(0, 4)])


def test_a_loop_whose_values_have_no_vector_form_after_all_is_barred() -> None:
    """A call that is not known to work lane by lane: the description does not tell."""
    odd = matched(
        C, I * 4 + J, op.call("q_multiply_shift", BufferLoad(A, (I * 4 + J,))), (I, 8), (J, 4)
    )
    asked = []

    def plan(described: LoopNest) -> tuple[Piece, ...]:
        asked.append([loop.lanes for loop in described.loops])
        return plan_stores(described, core_of(64), 4)

    ((same, piece),) = planned_nests(odd, plan)
    assert (same, piece.nest.moves) == (odd, ())
    assert asked == [[0, 0], [0, 1]]
