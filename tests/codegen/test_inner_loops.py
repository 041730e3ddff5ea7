"""What makes kernels fast stands in their innermost loops: whole vectors, accumulators in
registers, few loads, nothing spilled.

`golden/best_schedules.jsonl` holds the best of 32 trials for five operators, each tuned for a core
with 512-bit and one with 256-bit vectors. The targets are part of the file: this test compiles for
them on every machine and reads LLVM's assembly text (AT&T syntax: the destination comes last).
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import llvmlite.binding as llvm
import pytest

from autosched.codegen.llvm import assembly, emit_llvm
from autosched.driver import lower_steps
from autosched.measure.records import read_log
from autosched.state.steps import steps_from_json
from autosched.task import Task

GOLDEN = Path(__file__).resolve().parent.parent / "golden" / "best_schedules.jsonl"
WIDE = {64: "%zmm", 32: "%ymm"}
FLOAT = re.compile(r"v(fn?m|add|sub|mul|div|max|min)\w*[ps][sd]$")


@dataclass(frozen=True)
class Limits:
    """`accumulators` at least; `loads` for each multiply-add, `narrow` innermost loops that
    calculate with less than a whole vector, and `reloads` of constants from the stack, at most."""

    accumulators: int
    loads: float
    narrow: int = 0
    reloads: int = 0


LIMITS = {
    "matmul-avx512": Limits(16, 0.625),
    "conv2d_nhwc-avx512": Limits(16, 0.625),
    "depthwise_conv2d_nhwc-avx512": Limits(14, 1.15),
    "conv2d_nchw_bn_relu-avx512": Limits(16, 0.625),
    "matmul-avx2": Limits(8, 0.75),
    "conv2d_nhwc-avx2": Limits(8, 0.75),
    "depthwise_conv2d_nhwc-avx2": Limits(14, 1.08),
    "conv2d_nchw_bn_relu-avx2": Limits(8, 0.75, narrow=1),  # the schedule has 4 lanes at the end
    "softmax-avx512": Limits(0, 1.0),
    # One output, left to LLVM; four vectors at a time leave no register for the row's maximum.
    "softmax-avx2": Limits(0, 1.0, narrow=2, reloads=1),
}


class Loop:
    """An innermost loop: its instructions as (mnemonic, operands)."""

    def __init__(self, lines: list[str]) -> None:
        self.code = []
        for line in lines:
            name, _, rest = line.partition("\t")
            self.code.append((name, re.findall(r"(?:[^,(]|\([^)]*\))+", rest.replace(" ", ""))))

    def __str__(self) -> str:
        return "\n".join(f"{name} {', '.join(operands)}" for name, operands in self.code)

    @property
    def multiply_adds(self) -> list[list[str]]:
        return [ops for name, ops in self.code if name.startswith(("vfmadd", "vfnmadd"))]

    @property
    def arithmetic(self) -> list[list[str]]:
        return [ops for name, ops in self.code if FLOAT.match(name)]

    @property
    def loads(self) -> list[list[str]]:
        """Vector instructions that read memory, constants left out."""
        return [
            ops
            for name, ops in self.code
            if name.startswith("v") and any("(" in op and "%rip" not in op for op in ops[:-1])
        ]

    @property
    def stores(self) -> list[list[str]]:
        return [ops for name, ops in self.code if name.startswith("v") and "(" in ops[-1]]

    @property
    def accumulators(self) -> set[str]:
        """Registers that multiply-adds add to and nothing else writes."""
        others = {
            ops[-1] for name, ops in self.code if not name.startswith(("vfmadd231", "vfnmadd231"))
        }
        return {ops[-1] for ops in self.multiply_adds} - others

    @property
    def spills(self) -> list[list[str]]:
        """Accesses to fixed places on the stack: arrays there are indexed by a loop variable."""
        return [ops for _, ops in self.code if any(op.endswith("(%rsp)") for op in ops)]

    def has(self, *words: str) -> bool:
        return any(word in name for name, _ in self.code for word in words)


def innermost_loops(text: str) -> list[Loop]:
    """The loops of an assembly text that contain no other loop."""
    lines: list[str] = []
    labels: dict[str, int] = {}
    for raw in text.splitlines():
        line = raw.partition("#")[0].strip()
        if line.endswith(":"):
            labels[line[:-1]] = len(lines)
        elif line and not line.startswith("."):
            lines.append(line)
    spans = []
    for k, line in enumerate(lines):
        start = labels.get(line.split()[-1], k + 1) if line.startswith("j") else k + 1
        if start <= k:
            spans.append((start, k))
    return [
        Loop(lines[first : last + 1])
        for first, last in spans
        if not any((a, b) != (first, last) and first <= a and b <= last for a, b in spans)
    ]


@cache
def compiled(case: str) -> tuple[list[Loop], str]:
    """The innermost loops of a case, and the name of its whole vectors' registers."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    lines = map(json.loads, GOLDEN.read_text().splitlines())
    line = next(line for line in lines if line["case"] == case)
    task = Task.from_json(line["task"])
    func = lower_steps(task.dag, steps_from_json(line["steps"]), task.target, "kernel")
    loops = innermost_loops(assembly(emit_llvm(func, task.target), task.target))
    return loops, WIDE[task.target.vector_bytes]


def hottest(loops: Sequence[Loop]) -> Loop:
    """The loop with most multiply-adds; of equals the shortest."""
    return max(loops, key=lambda loop: (len(loop.multiply_adds), -len(loop.code)))


@pytest.mark.parametrize("case", LIMITS)
def test_the_hot_loop(case: str) -> None:
    loops, wide = compiled(case)
    hot, limits = hottest(loops), LIMITS[case]
    assert hot.multiply_adds
    assert all(wide in ops[-1] for ops in hot.arithmetic), f"narrow arithmetic:\n{hot}"
    assert len(hot.spills) <= limits.reloads, f"stack traffic:\n{hot}"
    assert not any("(" in ops[-1] for ops in hot.spills), f"stores to the stack:\n{hot}"
    assert not hot.has("gather", "scatter", "call"), f"{hot}"
    assert len(hot.loads) <= limits.loads * len(hot.multiply_adds), f"many loads:\n{hot}"
    assert len(hot.accumulators) >= limits.accumulators, f"few accumulators:\n{hot}"
    if limits.accumulators:
        assert not hot.stores, f"accumulators are stored:\n{hot}"
        assert len(hot.loads) + len(hot.multiply_adds) + 5 >= len(hot.code), f"moves:\n{hot}"


def test_rows_of_a_convolution_load_once_what_they_share() -> None:
    """Ansor's schedule of 8 lanes in the log's line 33: step by step it has a load for each of its
    multiply-adds. LLVM's O3 makes 83 multiply-adds of 53 loads and spills seven times."""
    record = read_log(GOLDEN.parent / "ansor_log_conv2d.json").records[33]
    text = (GOLDEN.read_text().splitlines())[0]
    target = Task.from_json(json.loads(text)["task"]).target
    task = replace(Task.from_json(record.task), target=target)
    func = lower_steps(task.dag, record.steps, target, "kernel")
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    hot = hottest(innermost_loops(assembly(emit_llvm(func, target), target)))
    assert len(hot.multiply_adds) == 14 * 12
    assert len(hot.loads) <= 0.7 * len(hot.multiply_adds), f"many loads:\n{hot}"
    assert len(hot.spills) <= 4, f"stack traffic:\n{hot}"


@pytest.mark.parametrize("case", LIMITS)
def test_the_other_loops(case: str) -> None:
    """What is not a reduction over products is vector code too: copies, maxima, sums, ends."""
    loops, wide = compiled(case)
    assert not any(loop.has("gather", "scatter", "call") for loop in loops)
    narrow = [
        loop
        for loop in loops
        if loop.arithmetic and not any(wide in o[-1] for o in loop.arithmetic)
    ]
    assert len(narrow) <= LIMITS[case].narrow, "\n\n".join(map(str, narrow))


SPILLING = """
.LBB0_1:
\tmovl\t$0, %eax
.LBB0_2:
\tvmovups\t8(%rdi,%rax,4), %zmm0   # 64-byte Folded Reload
\tvfmadd231ps\t64(%rsp), %zmm0, %zmm1
\tvmovups\t%zmm1, (%rsi,%rax)
\tincq\t%rax
\tjb\t.LBB0_2
\tjb\t.LBB0_1
"""


def test_reading_assembly() -> None:
    (loop,) = innermost_loops(SPILLING)
    assert [name for name, _ in loop.code][:2] == ["vmovups", "vfmadd231ps"]
    assert loop.code[0][1] == ["8(%rdi,%rax,4)", "%zmm0"]
    assert len(loop.loads) == 2
    assert loop.stores == [["%zmm1", "(%rsi,%rax)"]]
    assert loop.spills == [["64(%rsp)", "%zmm0", "%zmm1"]]
    assert loop.accumulators == {"%zmm1"}
