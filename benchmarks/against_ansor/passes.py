"""Lowering passes one by one, against TVM's.

    python benchmarks/against_ansor/passes.py --peer PYTHON [--cases N] [--seed N] [--show N]

A case is a random flat program of statements (tests/kit/random_statements.py). Each pass here and
its namesake there get the same function, as a table of nodes (passes_nodes.py), and the next passes
get what ours made. Both results come back here and run in the interpreter: ours must mean what the
program means, whatever becomes of theirs. Their errors and wrong results are counted only.

Strength is what is left: loops, conditions, stores, lets, allocations and their bytes, quotients.
More of one of them than TVM leaves is counted as `weaker`, and printed with `--show`. Known:
x // x is 1 there also where x is 0; HoistIfThenElse and RenormalizeSplitPattern there simplify what
did not change, too; small allocations of two types on a CPU share no memory here (StorageRewrite:
they become registers); expressions that were written as constants' arithmetic (`uint8(1) + 0`) are
folded there, here only where they are made. RemoveNoOp with data flow analysis is left out: it
does not end there for some programs.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from passes_nodes import UnknownNodeError, read, write
from peer import Peer, PeerError, arguments, each_seed

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
from autosched.errors import ScheduleError
from autosched.tir import expr, interp, stmt
from autosched.tir.function import PrimFunc
from autosched.tir.parser import parse_func
from autosched.tir.walk import all_exprs, stmts
from autosched.transform.framework.passes import Pass
from autosched.transform.loops.loop_partition import LoopPartition
from autosched.transform.loops.unroll_loop import UnrollLoop
from autosched.transform.pipeline import PASSES
from kit.random_statements import random_statements
from kit.types import Array

CONST_LOOPS = {"tir.LoopPartition": {"partition_const_loop": True}}
ALONE = (
    *("VectorizeLoop", "InjectVirtualThread", "StorageRewrite", "HoistIfThenElse", "UnrollLoop"),
    *("RenormalizeSplitPattern", "Simplify", "RemoveNoOp", "RewriteUnsafeSelect"),
    "CommonSubexprElimTIR",
)
ARGUMENTS: dict[str, list[Any]] = {"VectorizeLoop": [True]}
CASES: tuple[tuple[Pass, list[Any], dict[str, Any]], ...] = (
    (PASSES["NarrowDataType"](), ["NarrowDataType", 32], {}),
    (PASSES["Simplify"](), ["Simplify"], {}),
    (LoopPartition(), ["LoopPartition"], {}),
    (LoopPartition(partition_const_loops=True), ["LoopPartition"], CONST_LOOPS),
    *((PASSES[name](), [name, *ARGUMENTS.get(name, [])], {}) for name in ALONE),
    (UnrollLoop(auto_max_step=16), ["UnrollLoop"], {"tir.UnrollLoop": {"auto_max_step": 16}}),
)
_KINDS: dict[type[stmt.Stmt], str] = {
    stmt.For: "loops",
    stmt.IfThenElse: "conditions",
    stmt.BufferStore: "stores",
    stmt.LetStmt: "lets",
    stmt.Allocate: "allocations",
}


def measures(func: PrimFunc) -> Counter[str]:
    """What of each kind is in a function."""
    found = Counter(_KINDS[type(s)] for s in stmts(func.body) if type(s) in _KINDS)
    for s in stmts(func.body):
        if isinstance(s, stmt.Allocate):
            sizes = [e.value for e in s.extents if isinstance(e, expr.IntImm)]
            found["bytes"] += int(np.prod(sizes)) * s.dtype.bits * s.dtype.lanes // 8
    found["quotients"] = sum(
        isinstance(e, expr.FloorDiv | expr.FloorMod) for e in all_exprs(func.body)
    )
    return found


def outcome(func: PrimFunc, arrays: list[Array], wanted: list[Array] | None) -> Any:
    """What it leaves in the arrays; with `wanted`, why that is something else, or None."""
    found = [array.copy() for array in arrays]
    try:
        with np.errstate(all="ignore"):
            interp.run(func, found)
    except (interp.InterpreterError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    if wanted is None:
        return found
    for buffer, a, b in zip(func.buffers, found, wanted, strict=True):
        x, y = a.astype(np.float64), b.astype(np.float64)
        if not np.allclose(x, y, rtol=1e-5, atol=1e-5, equal_nan=True):
            return f"{buffer.name} has other values"
    return None


def theirs(peer: Peer, func: PrimFunc, call: list[Any], config: dict[str, Any]) -> Any:
    """What TVM's pass makes of a function; None where it refuses it."""
    try:
        return read(peer.ask("apply", write(func, target="llvm"), [call], config)[0])
    except (PeerError, UnknownNodeError, ValueError):
        return None


class Comparison:
    """What was found so far."""

    def __init__(self, show: int) -> None:
        self.show = show
        self.count: Counter[tuple[str, str]] = Counter()
        self.wrong = 0

    def case(self, peer: Peer, seed: int) -> None:
        """One program through all passes."""
        program = random_statements(random.Random(seed))
        func = parse_func(program.text)
        arrays = [*program.inputs, *program.outputs]
        wanted = outcome(func, arrays, None)
        for pass_, call, config in CASES:
            name = pass_.name
            other = theirs(peer, func, call, config)
            try:
                ours = pass_(func)
            except ScheduleError as error:
                self.count[name, "refused"] += 1
                print(f"seed {seed}, {name}: refused: {error}")
                return
            why = outcome(ours, arrays, wanted)
            if why is not None:
                self.wrong += 1
                print(f"seed {seed}, {name}: {why}\n{func}\n-- became\n{ours}")
                return
            self.count[name, "right"] += 1
            if other is None or outcome(other, arrays, wanted) is not None:
                self.count[name, "peer refused or wrong"] += 1
            else:
                a, b = measures(ours), measures(other)
                more = {key: (a[key], b[key]) for key in a if a[key] > b[key]}
                self.count[name, "weaker" if more else "as strong"] += 1
                if more and self.count[name, "weaker"] <= self.show:
                    print(f"seed {seed}, {name}: here and there {more}")
            func = ours


def main() -> None:
    """Prints what differs; exits with 1 if ours ever means something else."""
    parser = arguments(__doc__)
    parser.add_argument("--show", type=int, default=0, help="so many weaker results of each pass")
    options = parser.parse_args()
    comparison = Comparison(options.show)
    each_seed(options, "passes_worker.py", comparison.case)
    for (name, what), times in sorted(comparison.count.items()):
        print(f"{name}: {what} {times}")
    print(f"{options.cases} programs from seed {options.seed}: {comparison.wrong} wrong")
    sys.exit(comparison.wrong > 0)


if __name__ == "__main__":
    main()
