"""State that the functions of one module share, and the blocks and regions of functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from autosched.codegen.llvm_half import half_functions
from autosched.tir.expr import Expr, Var

if TYPE_CHECKING:
    from autosched.codegen.llvm_builder import FunctionBuilder

Terms = tuple[tuple[Expr, int], ...]
Handlers = Mapping[type[Expr], "Callable[[FunctionBuilder, Expr], str]"]


class Block:
    """A basic block: its label, its lines and its terminator."""

    __slots__ = ("label", "lines", "terminator")

    def __init__(self, label: str) -> None:
        self.label = label
        self.lines: list[str] = []
        self.terminator = ""


class Region:
    """A part of the function in which everything written so far may be used again.

    `values` has the registers of pure expressions, and `exact` those of pure floats in which
    nothing is fused. `loads` has, by pointer variable, values read from memory that no store has
    made stale; `read` and `exact_read` have values computed from such, until any store. `pointers`
    has addresses.
    """

    __slots__ = ("block", "exact", "exact_read", "loads", "pointers", "read", "values")

    def __init__(self, block: Block) -> None:
        self.block = block
        self.values: dict[Expr, str] = {}
        self.exact: dict[Expr, str] = {}
        self.loads: dict[Var, dict[Expr, str]] = {}
        self.read: dict[Expr, str] = {}
        self.exact_read: dict[Expr, str] = {}
        self.pointers: dict[tuple[Var, str, Terms], str] = {}

    def forget(self) -> None:
        """Drops all the values read from memory."""
        self.loads.clear()
        self.read.clear()
        self.exact_read.clear()


@dataclass
class ModuleBuilder:
    """State that the functions of one module share: declarations, globals, metadata, finished text.

    Properties of the CPU: `fuses`, it has multiply-add instructions; `scales`, it has instructions
    for products with a power of two (and with them AVX-512's others for floats); `has_masks`,
    instructions can leave lanes alone; `permutes_bytes`, an instruction puts 64 bytes in any order
    (AVX512-VBMI); `converts_halves`, it converts float16; `slow_gathers`, gathers and scatters take
    longer than a load or store for each lane whose distance from the first is known;
    `slow_underflow`, an instruction of which one lane's product is subnormal or too small takes a
    hundred times as long.

    `scalar_loops` counts innermost loops that compute scalars. `of_vectors` has the hints of the
    other innermost loops, by the position of their nodes in `metadata`. `local` has the functions
    that others of the module may call. `helpers` has the text of functions that code generation
    calls, by their names.

    Functions that few callers need: `addressed` returns the pointers with computed addresses,
    `updated` the buffers that are loaded and stored at one place, and `deciding` the variables that
    operations which jump depend on (`tir/jumps.py`).
    """

    handlers: Handlers
    symbol: str
    noalias: bool
    vector_bytes: int
    has_gather: bool
    has_scatter: bool
    slow_gathers: bool
    slow_underflow: bool
    fuses: bool
    scales: bool
    has_masks: bool
    permutes_bytes: bool
    converts_halves: bool
    declarations: dict[str, str] = field(default_factory=dict)
    globals: list[str] = field(default_factory=list)
    functions: list[str] = field(default_factory=list)
    helpers: dict[str, str] = field(default_factory=dict)
    metadata: list[str] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)
    scalar_loops: int = 0
    of_vectors: dict[int, str] = field(default_factory=dict)
    shared: dict[str, str] = field(default_factory=dict)
    pure: dict[Expr, bool] = field(default_factory=dict)
    reads: dict[Expr, bool] = field(default_factory=dict)
    local: frozenset[str] = frozenset()
    addressed: Callable[[], set[Var]] = set
    updated: Callable[[], frozenset[Var]] = frozenset
    deciding: Callable[[], frozenset[Var]] = frozenset

    def declare(self, name: str, signature: str) -> str:
        """Declares function `name`; `signature` is `<result> @(<parameters>)`. Returns @name."""
        result, parameters = signature.split("@", 1)
        self.declarations[name] = f"declare {result.strip()} @{name}{parameters}"
        return f"@{name}"

    def constant(self, value: str, align: int) -> str:
        """The one constant in memory with this value, `<type> <literal>`. Returns @name."""
        if value not in self.shared:
            name = self.shared[value] = f"@constant.{len(self.globals)}"
            kind = "private unnamed_addr constant"
            self.globals.append(f"{name} = {kind} {value}, align {align}")
        return self.shared[value]

    def node(self, text: str, *, distinct: bool = False) -> str:
        """A metadata node; `{self}` in `text` stands for the node itself. Returns !N."""
        name = f"!{len(self.metadata)}"
        keyword = "distinct " if distinct else ""
        body = text.replace("{self}", name)
        self.metadata.append(f"{name} = {keyword}!{{{body}}}")
        return name

    def shared_node(self, text: str) -> str:
        """The one metadata node with this text. Returns !N."""
        if text not in self.shared:
            self.shared[text] = self.node(text)
        return self.shared[text]

    def loop_of_vectors(self, hint: str) -> str:
        """The metadata node of a loop that has the hint if the module has no loop of scalars.

        What LLVM's O3 makes of one loop depends on the hints of the others. Returns !N.
        """
        self.of_vectors[len(self.metadata)] = hint
        return self.node("{self}", distinct=True)

    def text(self) -> str:
        """The whole module, after a comment that guides the choice of LLVM's passes."""
        if not self.scalar_loops:
            for place, hint in self.of_vectors.items():
                flag = self.shared_node(hint)
                self.metadata[place] = f"!{place} = distinct !{{!{place}, {flag}}}"
        parts = [f"; innermost loops of scalars: {self.scalar_loops}"]
        parts += [*self.globals, *self.declarations.values(), *self.helpers.values()]
        parts += [*self.functions, *self.metadata]
        text = "\n".join(parts) + "\n"
        return text + half_functions(text, self.converts_halves)
