"""Random flat programs of statements; compiled code must do what the interpreter does.

A program is text: loops that carry values between iterations (serial and unrolled, with begins
below 0 and bounds that depend on other loops), in-place updates, conditions, variables of indices
and of data, `while`, and allocations inside loops, with values of several types. The meaning of a
program is the interpreter's result for the text as written. The program is also interpreted as
lowered for this machine's CPU, and compiled with all and with few of LLVM's passes, for sets of
features that the CPU has.

Integers are divided by anything, including 0; int32 and int64 are kept from overflowing.
"""

from __future__ import annotations

import random
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from autosched.driver import lower_func
from autosched.errors import ScheduleError
from autosched.runtime.cpu import build_artifact, load
from autosched.target import Target
from autosched.tir import interp
from autosched.tir.dtype import DType
from autosched.tir.function import PrimFunc
from autosched.tir.parser import parse_func
from kit.pages import EDGES, at_edge
from kit.random_programs import CPU, Outcome, difference
from kit.types import Array

INTS = ("int32", "int32", "int32", "int64", "int8", "uint8", "int16", "uint16", "uint32")
FLOATS = ("float32", "float32", "float64", "float16", "bfloat16")
LOCAL = ("int32", "int64", "int8", "uint8", "float32")
SIZES = (1, 5, 16, 17, 33, 64)
LOOPS, DEPTH = 5, 4
"""The largest number of loops, and of blocks, around a statement."""

_AVX2 = "+avx,+avx2,+fma"
FEATURES = {
    "baseline": ("x86-64", "", 16),
    "SSE4": ("x86-64-v2", "+sse4.1,+sse4.2", 16),
    "AVX": ("sandybridge", "+avx", 32),
    "AVX2": ("haswell", f"{_AVX2},+f16c", 32),
    "AVX2 without FMA": ("x86-64-v2", "+avx,+avx2", 32),
    "AVX-512F": ("x86-64-v3", f"{_AVX2},+avx512f", 64),
    "AVX-512": ("skylake-avx512", f"{_AVX2},+avx512f,+avx512vl,+avx512bw,+avx512dq", 64),
}


@dataclass(frozen=True)
class Index:
    """The text of an int32 value computed from indices alone, in [low, high]."""

    text: str
    low: int
    high: int


@dataclass(frozen=True)
class Place:
    """A buffer of `size` elements, or, with size 0, a variable that holds data."""

    name: str
    dtype: str
    size: int
    writable: bool


@dataclass
class Statements:
    """The text of a program, the arrays it reads, and the arrays it changes."""

    text: str
    inputs: list[Array]
    outputs: list[Array]
    names: list[str] = field(default_factory=list)


def random_statements(draw: random.Random) -> Statements:
    """One to three inputs and outputs, and one to three statements with nested ones."""
    writer = _Writer(draw)
    read, written = (
        [
            Place(f"{letter}{k}", draw.choice(INTS + FLOATS), draw.choice(SIZES), letter == "Y")
            for k in range(draw.randrange(1, 4))
        ]
        for letter in "XY"
    )
    writer.places = [*read, *written]
    params = ", ".join(f"{p.name}: Buffer(({p.size},), {p.dtype})" for p in writer.places)
    body = textwrap.indent(writer.block(0, draw.randrange(1, 4)), "    ")
    text = f"def main({params}):\n    attrs(tir.noalias=True)\n{body}\n"
    inputs, outputs = ([_numbers(draw, p) for p in places] for places in (read, written))
    return Statements(text, inputs, outputs, [p.name for p in written])


def _numbers(draw: random.Random, place: Place) -> Array:
    low = 0 if place.dtype.startswith("u") else -4
    choices = draw.choice((range(low, 6), range(low, 6), (0, 0, 1), range(60)))
    numbers = [draw.choice(choices) for _ in range(place.size)]
    return np.array(numbers, np.float32).astype(DType(place.dtype).numpy)


class _Writer:
    """Writes statements; it tracks what they may read and write, and the nesting depth."""

    def __init__(self, draw: random.Random) -> None:
        self.draw = draw
        self.places: list[Place] = []
        self.indices: list[Index] = []
        self.loops = 0
        self.count = 0

    def fresh(self, letter: str) -> str:
        self.count += 1
        return f"{letter}{self.count}"

    # -- statements

    def block(self, depth: int, count: int) -> str:
        """Statements in sequence; their declarations are visible in this block only."""
        places, indices = list(self.places), list(self.indices)
        parts: list[str] = []
        for _ in range(count):
            way = self.draw.random()
            if way < 0.12 and depth < DEPTH:
                parts.append(self.allocation())
            elif way < 0.24:
                name, value = self.fresh("v"), self.index()
                parts.append(f"{name}: int32 = {value.text}")
                self.indices.append(replace(value, text=name))
            elif way < 0.3:
                name, dtype = self.fresh("u"), self.draw.choice(("int32", "float32"))
                parts.append(f"{name}: {dtype} = {self.value(dtype, 2)}")
                self.places.append(Place(name, dtype, 0, writable=False))
            parts.append(self.statement(depth))
        self.places, self.indices = places, indices
        return "\n".join(parts)

    def allocation(self) -> str:
        """An allocation that is filled before it is read."""
        name, k, size = self.fresh("S"), self.fresh("k"), self.draw.choice((1, 4, 8, 17))
        dtype, scope = self.draw.choice(LOCAL), self.draw.choice(("global", "local"))
        value = _converted(self.value("int32", 1), "int32", dtype)
        self.places.append(Place(name, dtype, size, writable=True))
        return (
            f'{name} = allocate(({size},), {dtype}, "{scope}")\n'
            f"for {k} in range({size}):\n    {name}[{k}] = {value}"
        )

    def statement(self, depth: int) -> str:
        way = self.draw.random()
        if depth < DEPTH and way < 0.42 and self.loops < LOOPS:
            return self.loop(depth)
        if depth < DEPTH + 1 and way < 0.58:
            text = f"if {self.condition()}:\n{self.inside(depth, (1, 2))}"
            if self.draw.random() < 0.5:
                text += f"\nelse:\n{self.inside(depth, (1, 2))}"
            return text
        if depth < DEPTH - 1 and way < 0.61:
            return self.repetition(depth)
        return self.store()

    def inside(self, depth: int, counts: Sequence[int]) -> str:
        return textwrap.indent(self.block(depth + 1, self.draw.choice(counts)), "    ")

    def repetition(self, depth: int) -> str:
        """A `while` that counts up to a number; it may not run at all."""
        name, most = self.fresh("c"), self.draw.randrange(4)
        text = f'{name} = allocate((1,), int32, "local")\n{name}[0] = {self.index().text} % 3\n'
        text += f"while {name}[0] < {most}:\n{self.inside(depth, (1, 2))}\n"
        text += f"    {name}[0] = {name}[0] + 1"
        return "if True:\n" + textwrap.indent(text, "    ")

    def loop(self, depth: int) -> str:
        draw, name = self.draw, self.fresh("i")
        extent = draw.choice((1, 2, 3, 4, 5, *((7, 8, 16, 17, 33) if self.loops < 2 else ())))
        low = draw.choice((0, 0, 0, 0, 1, 2, -1, -3))
        others = [x for x in self.indices if x.low >= -4 and x.high <= 20]
        kind = draw.choice(("range", "range", "range", "range", "unrolled"))
        if kind == "range" and others and draw.random() < 0.3:
            bounds, index = self.bounds_from(name, draw.choice(others), low, extent)
        else:
            last = low + (min(extent, 5) if kind == "unrolled" else extent) - 1
            bounds, index = f"{low}, {last + 1}", Index(name, low, last)
        pragma = ""
        if draw.random() < 0.1:
            steps = draw.choice((4, 16, 64))
            pragma = f'    pragma({name}, "auto_unroll_max_step", {steps})\n'
        self.loops += 1
        self.indices.append(index)
        body = self.inside(depth, (1, 1, 1, 2, 3))
        self.indices.pop()
        self.loops -= 1
        return f"for {name} in {kind}({bounds}):\n{pragma}{body}"

    def bounds_from(self, name: str, other: Index, low: int, extent: int) -> tuple[str, Index]:
        """A loop that begins or ends at another index; it may not run at all."""
        way, x = self.draw.random(), other.text
        if way < 0.4:
            index = Index(name, other.low, other.high + extent - 1)
            return f"{x}, {x} + {extent}", index
        if way < 0.7:
            more = self.draw.choice((0, 1))
            index = Index(name, low, max(low, low + other.high - other.low))
            return f"{low}, {low} + ({x} + {more - other.low})", index
        return f"{low}, {low} + min({extent}, {x} - {other.low})", Index(
            name, low, low + extent - 1
        )

    def store(self) -> str:
        """A store to an element, perhaps an in-place update."""
        draw = self.draw
        place = draw.choice([p for p in self.places if p.writable])
        dtype, at = place.dtype, f"{place.name}[{self.at(place.size)}]"
        value, way = self.value(dtype, draw.randrange(1, 4)), draw.random()
        if way < 0.35:
            value = _sum(dtype, at, value)
        elif way < 0.45:
            value = f"{draw.choice(('max', 'min'))}({at}, {value})"
        elif way < 0.5 and dtype in ("float32", "float64"):
            value = f"{at} + {value} * {self.read(dtype)}"
        return f"{at} = {value}"

    # -- values

    def index(self) -> Index:
        """An expression over the loops and variables in scope, or a number."""
        draw = self.draw
        if not self.indices or draw.random() < 0.1:
            number = draw.randrange(-3, 8)
            return Index(f"({number})", number, number)
        x, y = (draw.choice(self.indices[draw.choice((0, 0, -3)) :]) for _ in range(2))
        way = draw.random()
        if way < 0.33:
            return x
        if way < 0.48:
            k = draw.randrange(-5, 6)
            return Index(f"({x.text} + {k})", x.low + k, x.high + k)
        if way < 0.6:
            k = draw.choice((2, 3, -1, -2))
            return Index(f"({x.text} * {k})", *sorted((x.low * k, x.high * k)))
        k = draw.choice((2, 3, 4, 8))
        if way < 0.7:
            return Index(f"({x.text} // {k})", x.low // k, x.high // k)
        if way < 0.78:
            return Index(f"({x.text} % {k})", 0, k - 1)
        if way < 0.88:
            k = draw.choice((1, 1, 2, 4, -1))
            low, high = sorted((y.low * k, y.high * k))
            return Index(f"({x.text} + {y.text} * {k})", x.low + low, x.high + high)
        if way < 0.92:
            size = max(abs(x.low), abs(x.high))
            return Index(f"({x.text} // {y.text})", -size, size)
        if way < 0.95:
            size = max(abs(y.low), abs(y.high), 1) - 1
            return Index(f"({x.text} % {y.text})", -size, size)
        choose = draw.choice((min, max))
        text = f"{choose.__name__}({x.text}, {y.text})"
        return Index(text, choose(x.low, y.low), choose(x.high, y.high))

    def at(self, size: int) -> str:
        """An index that is inside a buffer of `size` elements."""
        index, way = self.index(), self.draw.random()
        if index.low >= 0 and index.high < size and way < 0.9:
            return index.text
        if index.high - index.low < size and way < 0.6:
            return f"{index.text} + {self.draw.randrange(-index.low, size - index.high)}"
        if way < 0.85:
            return f"{index.text} % {size}"
        return f"max(min({index.text}, {size - 1}), 0)"

    def read(self, dtype: str) -> str:
        fitting = [p for p in self.places if p.dtype == dtype] if self.draw.random() < 0.8 else []
        place = self.draw.choice(fitting or self.places)
        text = f"{place.name}[{self.at(place.size)}]" if place.size else place.name
        return _converted(text, place.dtype, dtype)

    def value(self, dtype: str, depth: int) -> str:
        draw = self.draw
        if depth == 0 or draw.random() < 0.25:
            way = draw.random()
            if way < 0.65:
                return self.read(dtype)
            if way < 0.8:
                return _converted(self.index().text, "int32", dtype)
            if "float" in dtype:
                return f"{dtype}({draw.choice((0.0, 1.0, 2.0, -1.0, 0.5))})"
            return (
                f"{dtype}({draw.choice((0, 1, 2, 3, 7, *(() if dtype[0] == 'u' else (-1, -4))))})"
            )
        a, b = (self.value(dtype, depth - 1) for _ in range(2))
        way = draw.random()
        if way < 0.3:
            return _sum(dtype, a, b)
        if way < 0.54:
            return f"{draw.choice(('max', 'min'))}({a}, {b})"
        if way < 0.78:
            return f"{draw.choice(('Select', 'if_then_else'))}({self.condition()}, {a}, {b})"
        if way < 0.86:
            other = draw.choice(INTS + FLOATS)
            rounded_late = other in ("float16", "bfloat16")  # their sums may be computed in float32
            text = self.read(other) if rounded_late else self.value(other, depth - 1)
            return _converted(text, other, dtype)
        if "float" in dtype:
            return f"({a} - {b})"
        bits = (f"bitwise_xor({a}, {b})", f"bitwise_and({a}, {b})")
        quotients = (f"({a} // {b})", f"({a} % {b})", f"truncdiv({a}, {b})", f"truncmod({a}, {b})")
        return draw.choice((*bits, *quotients))

    def condition(self) -> str:
        draw, way = self.draw, self.draw.random()
        sign = draw.choice(("<", "<=", "==", "!=", ">="))
        if way < 0.45:
            index = self.index()
            return f"{index.text} {sign} {draw.randrange(index.low - 1, index.high + 2)}"
        if way < 0.6:
            return f"{self.index().text} {sign} {self.index().text}"
        if way < 0.85:
            dtype = draw.choice(("int32", "float32"))
            return f"{self.read(dtype)} {sign} {self.value(dtype, 1)}"
        return f"({self.condition()} {draw.choice(('and', 'or'))} {self.condition()})"


def _converted(text: str, found: str, wanted: str) -> str:
    return text if found == wanted else f"{wanted}({text})"


def _sum(dtype: str, a: str, b: str) -> str:
    """A sum; int32 and int64 are reduced modulo 1000 first, because they must not overflow."""
    if dtype in ("int32", "int64"):
        return f"({a} % {dtype}(1000) + {b} % {dtype}(1000))"
    return f"({a} + {b})"


# -- running the programs


def targets() -> dict[str, Target]:
    """This machine's CPU, and CPUs with a part of its features."""
    here = {"this CPU": CPU}
    has = set(CPU.features.split(","))
    for name, (cpu, features, width) in FEATURES.items():
        if CPU.triple.startswith("x86_64") and set(filter(None, features.split(","))) <= has:
            here[name] = replace(CPU, cpu=cpu, features=features, vector_bytes=width)
    return here


def try_statements(seed: int, number: int) -> Outcome:
    """The outcome of program `number` of a seed, for lowering and compiling against its text."""
    draw = random.Random(f"{seed} {number}")
    program = random_statements(draw)
    func = parse_func(program.text)
    wanted = [array.copy() for array in program.outputs]
    with np.errstate(all="ignore"):
        interp.run(func, [*program.inputs, *wanted])
    name, target = draw.choice(list(targets().items()))
    try:
        wrong = [
            f"{how}: {output}: {why}"
            for how, found in _results(draw, func, program, target)
            for output, a, b in zip(program.names, found, wanted, strict=True)
            if (why := _unlike(a, b)) is not None
        ]
    except ScheduleError as error:
        return Outcome(name, "refused", str(error))
    if wrong:
        return Outcome(name, "wrong", "; ".join([*wrong, program.text]))
    return Outcome(name, "right")


def _results(
    draw: random.Random, func: PrimFunc, program: Statements, target: Target
) -> Iterator[tuple[str, list[Array]]]:
    """The outputs of the program for each way to run it."""
    lowered = lower_func(func, CPU)
    found = [array.copy() for array in program.outputs]
    with np.errstate(all="ignore"):
        interp.run(lowered, [*program.inputs, *found], eager_select=True)
    yield "as lowered", found
    other = lower_func(func, target)
    for how, kernel in (
        ("compiled", build_artifact(lowered, CPU)),
        ("compiled with all of LLVM's work", build_artifact(lowered, CPU, "full")),
        ("compiled for those features", build_artifact(other, target)),
    ):
        edge = draw.choice(EDGES)
        found = [at_edge(array, edge) for array in program.outputs]
        load(kernel)(*(at_edge(array, edge) for array in program.inputs), *found)
        yield how, found


def _unlike(found: Array, wanted: Array) -> str | None:
    """Where two arrays differ, or None; floats may be rounded once less or in another order."""
    if wanted.dtype.kind in "iub":
        return difference(found, wanted)
    x, y = (array.astype(np.float64) for array in (found, wanted))
    tolerance = {2: 0.05, 4: 1e-4, 8: 1e-9}[wanted.dtype.itemsize]
    with np.errstate(invalid="ignore"):
        near = np.abs(x - y) <= tolerance * np.maximum(1, np.abs(y))
    near |= (x == y) | (np.isnan(x) & np.isnan(y))
    return None if near.all() else difference(np.where(near, y, x), y)


def make_handler() -> Callable[[tuple[int, int]], Outcome]:
    """The handler of a process that may die: maps (seed, number) to an outcome."""
    return lambda request: try_statements(*request)
