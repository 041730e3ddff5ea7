"""Random host functions with packed calls of "mix", which changes a table of four numbers."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from autosched.runtime.cpu import register_extern
from autosched.runtime.packed import register_packed
from autosched.tir import interp
from autosched.tir.function import PrimFunc
from autosched.tir.parser import parse_func

Array = np.ndarray[Any, Any]


def random_program(rng: np.random.Generator, target: str = '    attrs(target="cpu")\n') -> PrimFunc:
    """A random function with nested and adjacent calls, loops, branches and allocations.

    Some calls are of the C function "mix_c", which does the same with one number.

    The parameters of the function are the table T (int32) and a number n.
    """

    def value(depth: int, calls: bool = True) -> str:
        pick = int(rng.integers(0, (9 if calls else 6) if depth else 3))
        if pick == 0:
            return str(int(rng.integers(-5, 5)))
        if pick < 3:
            return ("n", f"T[{int(rng.integers(0, 4))}]")[pick - 1]
        one, other = value(depth - 1, calls), value(depth - 1, calls)
        if pick == 3:
            return f"({one} + {other})"
        if pick == 4:
            test = f"{one} < {other}"
            arms = value(1, False), value(1, False)
            return f"if_then_else({test}, {', '.join(arms)})"
        if pick == 5:
            name = f"x{int(rng.integers(0, 10**9))}"
            return f"(let {name} = {one} in {name} + {other} + {name})"
        if pick == 6:
            return f'call_extern("mix_c", {one}, dtype=int32)'
        args = ", ".join(value(depth - 1) for _ in range(int(rng.integers(1, 4))))
        return f'call_packed("mix", {args}, dtype=int32)'

    def lines(depth: int, indent: str) -> list[str]:
        found: list[str] = []
        inner = indent + "    "
        for _ in range(int(rng.integers(1, 4))):
            place, name = f"T[bitwise_and({value(1)}, 3)]", f"v{int(rng.integers(0, 10**9))}"
            kind = int(rng.integers(0, 5 if depth else 2))
            if kind < 2:
                found.append(f"{indent}{place} = {value(3)}")
            elif kind == 2:
                found += [f"{indent}if {value(2)} < {value(2)}:", *lines(depth - 1, inner)]
            elif kind == 3:
                found += [f"{indent}for {name} in range(2):", *lines(depth - 1, inner)]
            else:
                size = int(rng.choice([1, 256, 300]))
                found.append(f'{indent}with {name} = allocate(({size},), int32, "global"):')
                found.append(f"{inner}{name}[0] = {value(2)}")
                found += lines(depth - 1, inner)
                found.append(f"{inner}{place} = {name}[0]")
        return found

    head = f"def main(T: Buffer((4,), int32), n: int32):\n{target}"
    return parse_func(head + "\n".join(lines(2, "    ")))


class Mix:
    """The function that these programs call; each call changes the table and is recorded."""

    def __init__(self) -> None:
        self.table = np.arange(4, dtype=np.int32)
        self.calls: list[tuple[int, ...]] = []

    def __call__(self, *args: int) -> int:
        self.calls.append(args)
        self.table[len(self.calls) % 4] += 1
        return sum(args) % 7 + len(self.calls)

    def register(self) -> None:
        """Register the function for compiled programs and for the interpreter."""
        one = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int32)(self)
        register_extern("mix_c", one)
        register_packed("mix", self)
        interp.register_extern("mix", self)
        interp.register_extern("mix_c", self)

    @property
    def outcome(self) -> tuple[list[int], list[tuple[int, ...]]]:
        """The table and the calls, in order."""
        return self.table.tolist(), self.calls
