"""Examples of primitives in their docstrings are what they do.

The text before is that of one of the computations below, after the statements that its label
holds; the text after is printed once the statements of its label have run as well. Both programs
must compute the same. `--update-golden` rewrites them.
"""

import difflib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autosched import te
from autosched.errors import ScheduleError
from autosched.te.lowering.to_prim_func import schedule_to_prim_func
from autosched.te.operations.tensor import Tensor
from autosched.te.operations.tensor_intrin import TensorIntrin
from autosched.tir import interp
from autosched.tir.buffer import Buffer
from autosched.tir.expr import Call, Expr, IterVar
from autosched.tir.function import PrimFunc
from autosched.tir.printer import to_text
from autosched.tir.walk import all_exprs
from kit.golden import Block, Example, Golden
from kit.tir import value_of

SOURCES = Path(__file__).resolve().parents[3] / "autosched" / "te" / "schedule"
FILES = ["annotate", "auto_inline", "cache", "groups", "loop_primitives", "placement", "rfactor"]


def scaled() -> dict[str, Any]:
    A = te.placeholder((16, 16), name="A")
    B = te.compute((16, 16), lambda i, j: A[i, j] * 2.0, name="B")
    i, j = B.op.axis
    return {"args": [A, B], "A": A, "B": B, "i": i, "j": j, "twice": intrinsic()}


def chain() -> dict[str, Tensor | IterVar | list[Tensor]]:
    A = te.placeholder((16,), name="A")
    B = te.compute((16,), lambda i: A[i] + 1.0, name="B")
    C = te.compute((16,), lambda j: B[j] * 2.0, name="C")
    return {"args": [A, C], "A": A, "B": B, "C": C, "j": C.op.axis[0]}


def row_sums() -> dict[str, Tensor | IterVar | list[Tensor]]:
    A = te.placeholder((16, 8), name="A")
    k = te.reduce_axis((0, 8), name="k")
    C = te.compute((16,), lambda i: te.sum(A[i, k], axis=k), name="C")
    return {"args": [A, C], "A": A, "C": C, "i": C.op.axis[0], "k": k}


def running_sums() -> dict[str, Tensor | list[Tensor]]:
    A = te.placeholder((8, 32), name="A")
    state = te.placeholder((8, 32), name="state")
    first = te.compute((1, 32), lambda _, i: A[0, i], name="first")
    step = te.compute((8, 32), lambda t, i: state[t - 1, i] + A[t, i], name="step")
    scan = te.scan(first, step, state, [A], name="scan")
    return {"args": [A, scan], "A": A, "scan": scan}


def intrinsic() -> TensorIntrin:
    """A row of 16 elements doubled by an external function."""
    a = te.placeholder((16,), name="a")
    b = te.compute((16,), lambda i: a[i] * 2.0, name="b")

    def call(inputs: Sequence[Buffer], outputs: Sequence[Buffer]) -> Expr:
        return te.call_extern("twice", te.address_of(outputs[0][0]), te.address_of(inputs[0][0]))

    return te.decl_tensor_intrin(b.op, call, name="twice")


COMPUTATIONS = [scaled, chain, row_sums, running_sums]


def scheduled(computation: Callable[[], dict[str, Any]], *statements: str) -> PrimFunc:
    """The function of a computation after some statements, and whether a schedule allows them."""
    names = computation()
    names["te"], names["s"] = te, te.create_schedule(names["args"][-1].op)
    for statement in statements:
        exec(statement, names)
    return schedule_to_prim_func(names["s"], names["args"])


def body_of(func: PrimFunc) -> str:
    """The printed statements, without the head of the function and what all of them share."""
    lines = [line[4:] for line in to_text(func).split("\n")[2:]]
    output = f"realize({func.buffers[-1].name}["
    return "\n".join(line for line in lines if not line.startswith(output))


def computation_of(block: Block) -> Callable[[], dict[str, Any]]:
    """The computation whose program stands in a block, or the one most like it."""
    found = {}
    for computation in COMPUTATIONS:
        try:
            found[body_of(scheduled(computation, block.label))] = computation
        except (NameError, AttributeError, ScheduleError):
            continue  # the statements are about names of another computation
    near = difflib.get_close_matches(block.text, found, n=1, cutoff=0.0)
    return found[near[0]]


@pytest.mark.parametrize("name", FILES)
def test_examples(name: str, golden: Golden) -> None:
    def run(example: Example) -> None:
        computation = computation_of(example.before)
        before = scheduled(computation, example.before.label)
        example.before.found = body_of(before)
        for block in example.outcomes:
            after = scheduled(computation, example.before.label, block.label)
            block.found = body_of(after)
            same_result(before, after)

    assert golden.check_examples(SOURCES / f"{name}.py", run) > 0


def same_result(before: PrimFunc, after: PrimFunc) -> None:
    """Both programs leave the same arrays; those that call another language are not run."""
    if any(isinstance(e, Call) and e.op == "call_extern" for e in all_exprs(after.body)):
        return
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-4, 5, [value_of(e) for e in b.shape]) for b in before.buffers]
    results = []
    for func in (before, after):
        copies = [a.astype(np.float32) for a in arrays]
        interp.run(func, copies)
        results.append(copies[-1])
    np.testing.assert_array_equal(results[0], results[1])
