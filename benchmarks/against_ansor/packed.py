"""Which wrong arguments a host function refuses, against TVM's.

    python benchmarks/against_ansor/packed.py --peer PYTHON [--cases N] [--seed S] [--show N]

A case draws a function with sizes that are constants, variables or made of them, and arguments:
right ones, too few, too many, numbers and None for arrays, other shapes, types and strides. Both
sides compile the function and must take or refuse the same.

Known to differ, and no defect: where a size is a variable, TVM's te declares buffers of any
strides; here they are compact.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from typing import Any

import programs
from packed_values import Value, made
from peer import Peer, arguments

from autosched import te
from autosched.driver import build_host, lower
from autosched.errors import MeasureError
from autosched.runtime.host import load_host
from autosched.target import cpu_target

HEAD = "n, m = te.var('n'), te.var('m')\n"
PROGRAMS: dict[str, list[list[int] | None]] = {
    """a = te.placeholder((n,), name='a')
b = result = te.compute((n,), lambda i: a[i] + const(1.0, 'float32'), name='b')
arguments = [a, b]""": [[8], [8]],
    """a, v = te.placeholder((n, m), name='a'), te.placeholder((m,), name='v')
b = result = te.compute((n, m), lambda i, j: a[i, j] + v[j], name='b')
arguments = [a, v, b]""": [[4, 8], [8], [4, 8]],
    """a = te.placeholder((4, 8), name='a')
b = result = te.compute((8, 4), lambda i, j: a[j, i] + const(1.0, 'float32'), name='b')
arguments = [a, b]""": [[4, 8], [8, 4]],
    """a = te.placeholder((n + 1,), name='a')
b = result = te.compute((n,), lambda i: a[i] + a[i + 1], name='b')
arguments = [a, b]""": [[5], [4]],
    """a = te.placeholder((n * 2,), name='a')
b = result = te.compute((n,), lambda i: a[i * 2] + a[i * 2 + 1], name='b')
arguments = [b, a]""": [[4], [8]],
    """a = te.placeholder((8,), name='a')
b = result = te.compute((n,), lambda i: a[0] + const(1.0, 'float32'), name='b')
arguments = [n, a, b]""": [None, [8], [4]],
    """a = te.placeholder((8,), 'int8', name='a')
b = result = te.compute((8,), lambda i: a[i] + a[i], name='b')
arguments = [a, b]""": [[8], [8]],
}
"""Texts, and the shapes of right arguments; None is a number."""
SHAPES = ((), (0,), (1,), (3,), (4,), (5,), (8,), (10,), (1, 8), (4, 1), (4, 8), (8, 4), (4, 8, 1))
TYPES = ("float32",) * 7 + ("float64", "int8", "int32", "uint8", "float16")
ORDERS = ("compact",) * 5 + ("every second", "transposed", "backwards")
STRIDES = "strides: expected to be compact array"
_FUNCTIONS: dict[str, Any] = {}


def call(text: str, values: list[Value]) -> str:
    """Why our function refuses these arguments; an empty text where it takes them."""
    if text not in _FUNCTIONS:
        names: dict[str, Any] = dict(programs.NAMES)
        exec(text, names)
        target = cpu_target(threads=1)
        schedule = te.create_schedule(names["result"].op)
        func = lower(schedule, names["arguments"], target, name="f")
        _FUNCTIONS[text] = load_host(build_host(func, target))
    try:
        _FUNCTIONS[text](*map(made, values))
    except MeasureError as error:
        return str(error).splitlines()[0]
    return ""


def drawn(rng: random.Random) -> tuple[str, list[Value]]:
    """A function and its arguments."""
    text, shapes = rng.choice(list(PROGRAMS.items()))
    dtype = "int8" if "int8" in text else "float32"
    values: list[Value] = [
        ["plain", 4] if shape is None else ["array", shape, dtype, "compact"] for shape in shapes
    ]
    if rng.random() < 0.1:
        values.pop()
    elif rng.random() < 0.1:
        values.append(_any(rng))
    for _ in range(rng.choice((0, 1, 1, 2))):
        values[rng.randrange(len(values))] = _any(rng)
    return HEAD + text, values


def _any(rng: random.Random) -> Value:
    if rng.random() < 0.2:
        return ["plain", rng.choice((None, 4, 2.5, "text"))]
    return ["array", list(rng.choice(SHAPES)), rng.choice(TYPES), rng.choice(ORDERS)]


def main() -> int:
    """Print what differs and a summary; 1 where something does."""
    parser = arguments(__doc__)
    parser.add_argument("--show", type=int, default=5, help="differences to print")
    options = parser.parse_args()
    counted: Counter[str] = Counter()
    with Peer(options.peer, "packed_worker.py") as peer:
        for seed in range(options.seed, options.seed + options.cases):
            text, values = drawn(random.Random(seed))
            ours, theirs = call(text, values), peer.ask("call", text, values)
            if bool(ours) == bool(theirs):
                counted["both refuse" if ours else "both take"] += 1
            elif STRIDES in ours and "(n" in text:
                counted["strides"] += 1
            else:
                counted["differ"] += 1
                if counted["differ"] <= options.show:
                    print(f"-- seed {seed}: {values}\n{text}\nours   {ours}\ntheirs {theirs}")
    print(dict(counted))
    return 1 if counted["differ"] else 0


if __name__ == "__main__":
    sys.exit(main())
