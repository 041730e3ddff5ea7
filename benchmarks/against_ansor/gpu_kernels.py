"""Random kernels as text of TIR: threads that share memory, without their barriers.

Statement by statement, all threads at once, each is what it computes; which barriers make that so
is for the passes to find. No statement writes an element twice, or reads what it writes elsewhere.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import numpy as np

BLOCKS = 2
TYPES = ("float32", "int32", "int32", "int16", "float16")


@dataclass
class Memory:
    """Shared memory of `size` elements; `filled` once every element has a value."""

    name: str
    size: int
    dtype: str
    filled: bool = False


@dataclass
class Kernel:
    """A kernel that grows; `lines` are its text, `depth` is how far the next one is indented."""

    rng: random.Random
    lines: list[str] = field(default_factory=list)
    depth: int = 1
    count: int = 0
    loops: list[tuple[str, int]] = field(default_factory=list)
    open: list[Memory] = field(default_factory=list)
    uniform: bool = True
    virtual: bool = False

    def __post_init__(self) -> None:
        rng = self.rng
        self.x = rng.choice((2, 4, 8, 16, 32, 32, 64))
        self.y = rng.choice((1, 1, 1, 2, 3))
        self.threads = self.x * self.y
        self.thread = "threadIdx.x" if self.y == 1 else f"threadIdx.y * {self.x} + threadIdx.x"
        self.scope = rng.choice(("shared", "shared", "shared.dyn"))

    def add(self, line: str) -> None:
        """A line of the text."""
        self.lines.append("    " * self.depth + line)

    def name(self, kind: str) -> str:
        """A new name."""
        self.count += 1
        return f"{kind}{self.count}"

    def text(self) -> str:
        """The kernel: two blocks, A is what it reads and B what it writes."""
        size = BLOCKS * self.threads
        self.add(f"launch(blockIdx.x, {BLOCKS})")
        order = [f"launch(threadIdx.x, {self.x})"]
        order += [f"launch(threadIdx.y, {self.y})"] if self.y > 1 else []
        self.rng.shuffle(order)
        for line in order:
            self.add(line)
        if self.rng.random() < 0.2:
            self.virtual = True
            self.add("virtual_thread(vthread, 2)")
        self.add(f"{self.result()} = 0.0")
        for _ in range(self.rng.randint(2, 5)):
            self.statement(2)
        for memory in self.open:
            self.use(memory)
        head = f"def main(A: Buffer(({size},), float32), B: Buffer(({2 * size},), float32)):"
        return "\n".join([head, *self.lines]) + "\n"

    def arrays(self) -> list[Any]:
        """What it takes: small whole numbers."""
        size = BLOCKS * self.threads
        read = np.random.default_rng(self.threads).integers(-4, 5, size).astype(np.float32)
        return [read, np.zeros(2 * size, np.float32)]

    # -- statements

    def statement(self, depth: int) -> None:
        """One, with what is inside of it; memory that is allocated there ends with it."""
        makers = [(self.copy, 4), (self.store, 4), (self.change, 2), (self.private, 1)]
        if not self.virtual:
            makers.append((self.reduce, 1))
        if (self.x == 32 or (self.x < 32 and self.y == 1)) and not self.virtual:
            makers.append((self.warp, 1))
        if depth > 0:
            makers += [(self.loop, 3), (self.block, 1), (self.branch, 1), (self.buffered, 1)]
        functions, weights = zip(*makers, strict=True)
        self.rng.choices(functions, weights)[0](depth)

    def inside(self, depth: int) -> None:
        """Statements one level down."""
        self.depth += 1
        before = len(self.open)
        self.add(f"{self.result()} = {self.result()} + 1.0")
        for _ in range(self.rng.randint(1, 3)):
            self.statement(depth - 1)
        for memory in self.open[before:]:
            self.use(memory)
        del self.open[before:]
        self.depth -= 1

    def loop(self, depth: int) -> None:
        """A loop of all threads."""
        var, extent = self.name("k"), self.rng.choice((1, 2, 3, 4))
        length = str(extent)
        if self.loops and self.rng.random() < 0.25:  # one that another loop gives
            around, most = self.rng.choice(self.loops)
            length, extent = f"{around} + 1", most
        elif self.rng.random() < 0.1:
            length, extent = "blockIdx.x + 1", BLOCKS
        self.add(f"for {var} in range({length}):")
        self.loops.append((var, extent))
        self.inside(depth)
        self.loops.pop()

    def block(self, depth: int) -> None:
        """Memory of a part of the kernel."""
        memory = self.memory()
        self.add(f"with {self.allocate(memory)}:")
        self.open.append(memory)
        self.inside(depth)
        self.open.remove(memory)

    def branch(self, depth: int) -> None:
        """A condition that holds for all threads of a block, or for none."""
        conditions = ["blockIdx.x < 1", *(f"{var} < 1" for var, _ in self.loops)]
        conditions += [f"{var} % 2 == 0" for var, _ in self.loops]
        self.add(f"if {self.rng.choice(conditions)}:")
        filled = [memory.filled for memory in self.open]
        self.inside(depth)
        for memory, was in zip(self.open, filled, strict=True):
            memory.filled = was

    def buffered(self, depth: int) -> None:
        """A loop whose memory is filled for the next turn while this one's is read."""
        memory = self.memory()
        var, extent = self.name("k"), self.rng.choice((2, 3, 4))
        self.add(f"for {var} in range({extent}):")
        self.depth += 1
        self.add(self.allocate(memory))
        self.add(f'with attr(data({memory.name}), "double_buffer_scope", 1):')
        self.loops.append((var, extent))
        self.depth += 1
        self.fill(memory, "A")
        self.depth -= 1
        self.use(memory)
        self.loops.pop()
        self.depth -= 1

    def copy(self, depth: int) -> None:
        """Something new in some memory, of A or of other memory."""
        if not self.open or self.rng.random() < 0.3:
            memory = self.memory()
            self.add(self.allocate(memory))
            self.open.append(memory)
        memory = self.rng.choice(self.open)
        others = [m for m in self.open if m.filled and m is not memory]
        self.fill(memory, self.rng.choice(others).name if others else "A")

    def change(self, depth: int) -> None:
        """Some elements of some memory, each by one thread, of which not all do so."""
        filled = [m for m in self.open if m.filled]
        if not filled:
            self.copy(depth)
            return
        memory, rng, t = self.rng.choice(filled), self.rng, self.thread
        value = f"{memory.dtype}(A[{self.element('A')}])"
        first, count = rng.randrange(self.threads), rng.randint(1, self.threads)
        slot = rng.randrange(memory.size // self.threads) * self.threads
        conditions = [f"{t} < {count}", f"{t} >= {first}", f"({t}) % 2 == {rng.randrange(2)}"]
        self.add(f"if {rng.choice(conditions)}:")
        self.add(f"    {memory.name}[{slot} + {self.moved()}] = {value}")

    def store(self, depth: int) -> None:
        """Something of some memory in the result."""
        filled = [m for m in self.open if m.filled]
        if filled:
            self.use(self.rng.choice(filled))

    def private(self, depth: int) -> None:
        """Registers of a thread."""
        name = self.name("L")
        self.add(f'with {name} = allocate((4,), float32, "local"):')
        self.depth += 1
        r = self.name("r")
        self.add(f"for {r} in range(4):")
        self.add(f"    {name}[{r}] = A[{self.element('A')}] + float32({r})")
        self.add(f"{self.result()} = {self.result()} + {name}[{self.rng.randrange(4)}]")
        self.depth -= 1

    def reduce(self, depth: int) -> None:
        """A value of all threads along x, or of all."""
        every = self.y > 1 and self.rng.random() < 0.4
        axes = "threadIdx.x, threadIdx.y" if every else "threadIdx.x"
        kind, zero = self.rng.choice((("x + y", "0.0"), ("max(x, y)", "-3.4028235e+38")))
        name, value = self.name("R"), f"A[{self.element('A')}]"
        self.add(f'with {name} = allocate((1,), float32, "local"):')
        self.depth += 1
        reducer = f'reducer("r", [x: float32], [y: float32], [{kind}], [{zero}])'
        self.add(f'with attr({reducer}, "reduce_scope", 0):')
        self.add(f"    tvm_thread_allreduce(uint32(1), {value}, True, {name}[0], {axes})")
        self.add(f"{self.result()} = {self.result()} + {name}[0]")
        self.depth -= 1

    def warp(self, depth: int) -> None:
        """Memory of a warp that its threads fill side by side."""
        name, rows = self.name("W"), self.rng.choice((1, 1, 2))
        r, q = self.name("r"), self.name("q")
        where = f"(threadIdx.x + {self.rng.randrange(self.x)}) % {self.x}"
        at, other = f"{r} * {self.x} + threadIdx.x", f"{q} * {self.x} + {where}"
        if self.rng.random() < 0.5:
            at, other = f"threadIdx.x * {rows} + {r}", f"{where} * {rows} + {q}"
        self.add(f'with {name} = allocate(({self.x * rows},), float32, "warp"):')
        self.depth += 1
        self.add(f"for {r} in range({rows}):")
        self.add(f"    {name}[{at}] = A[{self.element('A')}]")
        self.add(f"for {q} in range({rows}):")
        self.add(f"    {self.result()} = {self.result()} + {name}[{other}]")
        self.depth -= 1

    # -- parts of them

    def memory(self) -> Memory:
        """New memory: an element for each thread, or several, or one for some."""
        sizes = (1, 1, 2, 2, 3, 4)
        return Memory(self.name("S"), self.threads * self.rng.choice(sizes), self.rng.choice(TYPES))

    def allocate(self, memory: Memory) -> str:
        """Its line."""
        return f'{memory.name} = allocate(({memory.size},), {memory.dtype}, "{self.scope}")'

    def fill(self, memory: Memory, source: str) -> None:
        """Every element, each by one thread."""
        turns = memory.size // self.threads
        read, own = self.element(source), self.moved()
        if turns == 2 and source == "A" and memory.dtype == "float32" and self.rng.random() < 0.5:
            places = f"({own}) * 2:({own}) * 2 + 2"
            self.add(f"{memory.name}[{places}] = A[{places}]")
        elif turns == 1:
            self.add(f"{memory.name}[{own}] = {memory.dtype}({source}[{read}])")
        else:
            i = self.name("i")
            at = self.rng.choice((f"{i} * {self.threads} + {own}", f"({own}) * {turns} + {i}"))
            self.add(f"for {i} in range({turns}):")
            more = f" + float32({i})" if source == "A" else ""
            self.add(f"    {memory.name}[{at}] = {memory.dtype}({source}[{read}]{more})")
        memory.filled = True

    def moved(self) -> str:
        """A thread's number, or another one that no other thread has."""
        t, n = self.thread, self.threads
        forms = [t, t, f"{n - 1} - ({t})", *(f"({t} + {var}) % {n}" for var, _ in self.loops)]
        if n & (n - 1) == 0:
            forms.append(f"bitwise_xor({t}, {self.rng.randrange(n)})")
        return self.rng.choice(forms)

    def use(self, memory: Memory) -> None:
        """Add an element of it to the result."""
        if not memory.filled:
            self.fill(memory, "A")
        element = self.element("", memory.size)
        line = f"{self.result()} = {self.result()} + float32({memory.name}[{element}])"
        if self.rng.random() < 0.2:
            self.add(f"if {self.thread} < {self.rng.randint(1, self.threads)}:")
            line = "    " + line
        self.add(line)

    def element(self, source: str, size: int = 0) -> str:
        """Which one a thread reads, of A or of memory."""
        sizes = {"A": BLOCKS * self.threads, **{m.name: m.size for m in self.open}}
        size = size or sizes[source]
        rng, t = self.rng, self.thread
        forms = [t, f"{self.threads - 1} - ({t})", f"({t} + {rng.randrange(1, 9)}) % {size}"]
        forms += [f"({t}) // 2", str(rng.randrange(size)), f"({t}) * {rng.choice((2, 3))} % {size}"]
        forms += [f"({t} + {var}) % {size}" for var, _ in self.loops]
        forms += [f"({t} + vthread) % {size}"] * 3 if self.virtual else []
        return rng.choice(forms)

    def result(self) -> str:
        """The element of B that a thread adds to; virtual threads have one each."""
        part = f"blockIdx.x * {self.threads} + {self.thread}"
        return f"B[vthread * {BLOCKS * self.threads} + {part}]" if self.virtual else f"B[{part}]"


def drawn(seed: int) -> tuple[str, list[Any]]:
    """The kernel of a seed, and its arguments."""
    kernel = Kernel(random.Random(seed))
    return kernel.text(), kernel.arrays()
