"""Random functions of te.hybrid compute what Python computes when it runs them on arrays."""

from __future__ import annotations

import importlib.util
import random
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np

from autosched import te
from autosched.driver import build, schedule_ops
from autosched.runtime.cpu import load
from autosched.target import cpu_target
from autosched.tir import interp
from kit.seeds import each_seed

SIZE = 8
HEAD = f"""\
from autosched import te


def wrapped(x):
    return te.floormod(te.cast("int64", x), te.const(1000, "int64"))


def program(a):
    b, t = output_tensor(({SIZE},), "int64"), allocate(({SIZE},), "int64")
    for z in range({SIZE}):
        b[z], t[z] = int64(0), int64(z)
"""
TAIL = f"""
    for z in range({SIZE}):
        b[z] = b[z] + t[z] * int64(7)
    return b
"""


class Writer:
    """Writes statements on the arrays a, b and t, on variables and on loop variables."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.made = 0

    def new(self) -> str:
        self.made += 1
        return f"v{self.made}"

    def place(self, loops: list[str]) -> str:
        if loops and self.rng.random() < 0.8:
            shift, op = self.rng.randint(0, 3), self.rng.choice("+*")
            return f"({self.rng.choice(loops)} {op} {shift}) % {SIZE}"
        return str(self.rng.randrange(SIZE))

    def value(self, names: list[str], loops: list[str], depth: int) -> str:
        rng = self.rng
        if depth == 0:
            element = f"{rng.choice('abt')}[{self.place(loops)}]"
            return rng.choice([*names, *loops, element, str(rng.randint(-5, 9))])
        x, y = (self.value(names, loops, depth - 1) for _ in range(2))
        match rng.randrange(4):
            case 0:
                return f"({x} if {self.test(names, loops)} else {y})"
            case 1:
                return f"{rng.choice(('min', 'max'))}({x}, {y})"
            case 2:
                return f"({x} {rng.choice(('//', '%'))} {rng.choice((2, 3, 7))})"
        return f"({x} {rng.choice('+-*')} {y})"

    def test(self, names: list[str], loops: list[str]) -> str:
        x, y, z = (self.value(names, loops, 0) for _ in range(3))
        forms = (f"{x} < {y}", f"{x} != {y}", f"0 <= {x} < 7", f"not {x} > {y}")
        joined = f"({x} < {y} {self.rng.choice(('and', 'or'))} {y} >= {z})"
        return self.rng.choice((*forms, joined))

    def block(self, indent: str, names: list[str], loops: list[str], depth: int) -> list[str]:
        lines: list[str] = []
        names = [*names]
        for _ in range(self.rng.randint(1, 4)):
            what = self.rng.randrange(4 if depth == 0 else 7)
            lines += [indent + line for line in self.statement(what, names, loops, depth)]
        return lines

    def statement(self, what: int, names: list[str], loops: list[str], depth: int) -> list[str]:
        rng = self.rng
        value, other = (f"wrapped({self.value(names, loops, 2)})" for _ in range(2))
        match what:
            case 0:
                names.append(self.new())
                return [f"{names[-1]} = {value}"]
            case 1 if names:
                return [f"{rng.choice(names)} {rng.choice(('=', '+=', '-='))} {value}"]
            case 2:
                return [f"b[{self.place(loops)}], t[{self.place(loops)}] = {value}, {other}"]
            case 4:
                kind = rng.choice(("range", "unroll", "const_range"))
                step = rng.choice((-2, -1, 1, 3))
                bounds = f"{rng.randint(0, 6)}, {rng.randint(-3, 8)}, {step}"
                inner = self.block("    ", names, [*loops, name := self.new()], depth - 1)
                return [f"for {name} in {kind}({bounds}):", *inner]
            case 5:
                then, otherwise = (self.block("    ", names, loops, depth - 1) for _ in range(2))
                return [f"if {self.test(names, loops)}:", *then, "else:", *otherwise]
            case 6:
                name = self.new()
                inner = self.block("    ", names, loops, depth - 1)
                rounds = rng.randint(1, 4)
                last = f"    {name} -= 1"
                return [f"{name} = int64({rounds})", f"while {name} > 0:", *inner, last]
        return [f"{rng.choice('bt')}[{self.place(loops)}] {rng.choice(('=', '+='))} {value}"]


def program_of(path: Path, seed: int) -> FunctionType:
    writer = Writer(seed)
    path.write_text(HEAD + "\n".join(writer.block("    ", [], [], 3)) + TAIL)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    program: FunctionType = module.program
    return program


def run_by_python(program: FunctionType, a: Any) -> Any:
    names = {
        **program.__globals__,
        "output_tensor": np.zeros,
        "allocate": np.zeros,
        "int64": int,
        "wrapped": lambda x: int(x) % 1000,
        **dict.fromkeys(("unroll", "const_range"), range),
    }
    return FunctionType(program.__code__, names)(a)


@each_seed(16)
def test_random_functions(seed: int, tmp_path: Path) -> None:
    program = program_of(tmp_path / f"program_{seed}.py", seed)
    a = np.random.default_rng(seed).integers(-9, 9, SIZE)
    wanted = run_by_python(program, a.copy())
    A = te.placeholder((SIZE,), "int64", name="A")
    B: Any = te.hybrid.script(program)(A)
    schedule = te.create_schedule(B.op)
    found = np.zeros(SIZE, np.int64)
    interp.run(schedule_ops(schedule, [A, B]), [a, found])
    np.testing.assert_array_equal(found, wanted)
    kernel = load(build(schedule, [A, B], cpu_target(threads=1)))
    np.testing.assert_array_equal(kernel(a), wanted)
