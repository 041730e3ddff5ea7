"""Functions under construction as LLVM assembly text.

Text is written in *regions*: the function's body, the body of each loop and each branch of an if.
A pure expression is written once, in the outermost region where its variables are known, so loop
invariants leave their loops and common sub-expressions are shared without any LLVM pass. Text can
still be added to an enclosing region while an inner one is open, because a block's terminator is
kept apart from its lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import takewhile

from autosched.codegen.llvm_module import Block, ModuleBuilder, Region, Terms
from autosched.codegen.llvm_types import constant, llvm_type
from autosched.errors import CompileError
from autosched.tir.expr import (
    BufferLoad,
    Call,
    Div,
    Expr,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Let,
    Mod,
    Mul,
    Var,
)
from autosched.tir.intrin import is_pure
from autosched.tir.jumps import is_sum, jumps, made_whole
from autosched.tir.kinds import bits_of, kinds
from autosched.tir.stmt import BufferStore, Stmt
from autosched.tir.walk import free_vars

_UNMOVABLE = BufferLoad | Let | Div | Mod | FloorDiv | FloorMod
_FUSED = bits_of(Mul, Div)
"""Operations that are computed in another way where nothing is to be fused."""


class FunctionBuilder:
    """One function: blocks, open regions and the values of variables.

    `values` maps a variable to its register, `wide` an integer variable to the same value as i64,
    `depth` a variable to the index of the region that defines it, and `pointers` a pointer variable
    to its register. `multiples` has, for the variable of each open innermost loop, the registers
    that hold its products with constants. `mask` is the register and width of the condition under
    which memory may be read. No mask is used for the arrays `unmasked`.

    `may_fuse` says that a product and a sum may be rounded once. It is off in operands of jumps,
    which are discontinuous operations such as floor (`tir/jumps.py`); `rounded` has those operands
    that are rounded to whole numbers. `slots` has the workspace pointers that the exit block frees,
    and `slot_of` the slot of a pointer's register. `last` has further lines of the exit block.
    """

    def __init__(self, module: ModuleBuilder, *, inside_parallel: bool = False) -> None:
        self.module = module
        self.inside_parallel = inside_parallel
        self.blocks: list[Block] = []
        self.regions: list[Region] = []
        self.at: Region
        self.values: dict[Var, str] = {}
        self.wide: dict[Var, str] = {}
        self.depth: dict[Var, int] = {}
        self.nonnegative: set[Var] = set()
        self.pointers: dict[Var, str] = {}
        self.multiples: dict[Expr, dict[int, str]] = {}
        self.allocas: list[str] = []
        self.unmasked: set[Var] = set()
        self.slots: list[str] = []
        self.last: list[str] = []
        self.slot_of: dict[str, str] = {}
        self.mask: tuple[str, int] | None = None
        self.may_fuse = True
        self.rounded: frozenset[Expr] = frozenset()
        self.counter = 0
        self.enter(self.new_block("entry"))

    # -- text ---------------------------------------------------------------------------------

    def fresh(self, hint: str = "v") -> str:
        """A new register name."""
        self.counter += 1
        return f"%{hint}{self.counter}"

    def emit(self, text: str) -> str:
        """Writes `text` as the definition of a new register, which is returned."""
        self.counter += 1
        name = f"%v{self.counter}"
        self.at.block.lines.append(f"  {name} = {text}")
        return name

    def line(self, text: str) -> None:
        """Writes an instruction without a result."""
        self.at.block.lines.append(f"  {text}")

    def call(self, name: str, result: str, args: Iterable[tuple[str, str]]) -> str:
        """Calls the declared-on-demand function `name` on (type, value) pairs."""
        pairs = list(args)
        types = ", ".join(t for t, _ in pairs)
        function = self.module.declare(name, f"{result} @({types})")
        values = ", ".join(f"{t} {v}" for t, v in pairs)
        return self.emit(f"call {result} {function}({values})")

    # -- blocks and regions -------------------------------------------------------------------

    def new_block(self, hint: str) -> Block:
        """A new block at the end of the function."""
        self.counter += 1
        block = Block(f"{hint}{self.counter}")
        self.blocks.append(block)
        return block

    @property
    def inner(self) -> Region:
        """The innermost open region."""
        return self.regions[-1]

    def enter(self, block: Block) -> Region:
        """Opens a region that starts in `block`."""
        region = Region(block)
        self.regions.append(region)
        self.at = region
        return region

    def leave(self, terminator: str) -> Block:
        """Closes the innermost region with `terminator`; returns its last block."""
        region = self.regions.pop()
        region.block.terminator = terminator
        if self.regions:
            self.at = self.regions[-1]
        return region.block

    def branch(self, terminator: str) -> Block:
        """Ends the current block but leaves its region open (see `resume`)."""
        block = self.inner.block
        block.terminator = terminator
        return block

    def resume(self, block: Block) -> None:
        """Continues the innermost region in `block` and forgets values read from memory."""
        self.inner.block = block
        self.inner.forget()

    def bind(self, var: Var, value: str, *, wide: str | None = None) -> None:
        """Defines `var` in the innermost region, as a register of its own type or as i64."""
        if var in self.depth:
            self._unbind(var)
        self.depth[var] = len(self.regions) - 1
        self.inner.values[var] = self.inner.exact[var] = self.inner.pointers[_mark(var)] = ""
        if wide is None:
            self.values[var] = value
            self.wide.pop(var, None)
        else:
            self.wide[var] = wide
            self.values.pop(var, None)

    def bind_here(self, var: Var, value: str) -> None:
        """Defines `var`, which is new, in the region that is written to now."""
        self.depth[var] = next(i for i, region in enumerate(self.regions) if region is self.at)
        self.values[var] = value

    def _unbind(self, var: Var) -> None:
        """Drop the registers of what uses `var`, which was bound before: its statement was copied.

        They are in the region where it was bound, behind the mark that `bind` left there, and in
        those inside.
        """
        mark = _mark(var)
        for region in self.regions[self.depth[var] :]:
            for values in (region.values, region.exact):
                since = takewhile(lambda e: e is not var, reversed(values))
                for e in [e for e in since if var in free_vars(e)]:
                    del values[e]
                values.pop(var, None)
            addresses = takewhile(mark.__ne__, reversed(region.pointers))
            for key in [k for k in addresses if any(var in free_vars(t) for t, _ in k[2])]:
                del region.pointers[key]
            region.pointers.pop(mark, None)
            for known in (*region.loads.values(), region.read, region.exact_read):
                for e in [e for e in known if var in free_vars(e)]:
                    del known[e]

    # -- expressions --------------------------------------------------------------------------

    def value(self, e: Expr) -> str:
        """The register or literal that holds `e`; a pure expression is written once."""
        if isinstance(e, IntImm | FloatImm):
            return constant(e.value, e.dtype)
        if isinstance(e, Var):
            return self._variable(e)
        handler = self.module.handlers.get(type(e))
        if handler is None:
            raise CompileError(f"{type(e).__name__} cannot be compiled for the CPU: {e!r}")
        if not self.is_pure(e):
            known = self._read(e).get(e)
            if known is None:
                self.at = self.inner
                known = self._written(handler, e)
                self.at = self.inner
                self._read(e)[e] = known
            return known
        region = self.region_of(e)
        values = self._known(e, region)
        known = values.get(e)
        if known is None:
            saved, self.at = self.at, region
            known = values[e] = self._written(handler, e)
            self.at = saved
        return known

    def _known(self, e: Expr, region: Region) -> dict[Expr, str]:
        """The table with the register of `e`: of fused or of exact values, or a temporary one."""
        if self.may_fuse or not e.dtype.is_float or not kinds(e) & _FUSED:
            return region.values
        # Quotients may be products where `e` is rounded to a whole number, but only there.
        return {} if e in self.rounded else region.exact

    def _read(self, e: Expr) -> dict[Expr, str]:
        """The table with the register of `e`, which reads memory; a temporary one if it does more.

        Loads are in tables of their own, by the buffer that they read.
        """
        if self.mask is not None or isinstance(e, BufferLoad) or not self._only_reads(e):
            return {}
        if self.may_fuse or not e.dtype.is_float or not kinds(e) & _FUSED:
            return self.inner.read
        return {} if e in self.rounded else self.inner.exact_read

    def _written(self, handler: Callable[..., str], e: Expr) -> str:
        """The result of `handler` for `e`; operands of an operation that jumps are not fused."""
        if not jumps(e):
            return handler(self, e)
        saved = self.may_fuse, self.rounded
        self.may_fuse, self.rounded = False, made_whole(e)
        result = handler(self, e)
        self.may_fuse, self.rounded = saved
        return result

    def bound_value(self, var: Var, value: Expr) -> str:
        """The register of `value`, which `var` stands for: exact if jumps depend on `var`."""
        saved = self.may_fuse
        self.may_fuse = saved and var not in self.module.deciding()
        result = self.value(value)
        self.may_fuse = saved
        return result

    def stored_value(self, stmt: BufferStore) -> str:
        """The register of the value `stmt` stores: exact if jumps depend on it, except in sums."""
        data = stmt.buffer.data
        if data not in self.module.deciding() or is_sum(stmt):
            return self.value(stmt.value)
        return self.bound_value(data, stmt.value)

    def wide_value(self, e: Expr) -> str:
        """The integer `e` as i64, for addresses; signed values are extended by their sign."""
        if isinstance(e, IntImm):
            return str(e.value)
        if isinstance(e, Var) and (known := self.wide.get(e)) is not None:
            return known
        narrow = self.value(e)
        if e.dtype.bits == 64:
            return narrow
        saved = self.at
        self.at = self.region_of(e) if self.is_pure(e) else self.inner
        extend = "zext" if e.dtype.code in ("uint", "bool") else "sext"
        result = self.emit(f"{extend} {llvm_type(e.dtype)} {narrow} to i64")
        self.at = saved
        if isinstance(e, Var):
            self.wide[e] = result
        return result

    def multiple(self, e: Expr, factor: int) -> str | None:
        """The register of `e` times `factor`, if `e` is the variable of an innermost loop.

        None for other expressions, and for factors by which addressing modes multiply.
        """
        known = self.multiples.get(e)
        if known is None or factor in (1, 2):
            return None
        if factor not in known:
            known[factor] = self.fresh("o")
        return known[factor]

    def _variable(self, var: Var) -> str:
        known = self.values.get(var)
        if known is not None:
            return known
        if var in self.pointers:
            return self.pointers[var]
        wide = self.wide.get(var)
        if wide is None:
            raise CompileError(f"the variable {var.name} is used outside of its scope")
        if var.dtype.bits == 64:
            return wide
        saved, self.at = self.at, self.regions[self.depth[var]]
        result = self.values[var] = self.emit(f"trunc i64 {wide} to {llvm_type(var.dtype)}")
        self.at = saved
        return result

    # -- code motion --------------------------------------------------------------------------

    def is_pure(self, e: Expr) -> bool:
        """Whether `e` may be computed earlier and once: no memory access, trap or binding."""
        known = self.module.pure.get(e)
        if known is None:
            known = self.module.pure[e] = _movable(e) and all(map(self.is_pure, e.children()))
        return known

    def _only_reads(self, e: Expr) -> bool:
        """Whether `e` has the same value again until memory is written to."""
        known = self.module.reads.get(e)
        if known is None:
            plain = isinstance(e, _UNMOVABLE) or _movable(e)
            known = self.module.reads[e] = plain and all(map(self._only_reads, e.children()))
        return known

    def region_of(self, e: Expr) -> Region:
        """The outermost open region in which every variable of `e` is defined."""
        depth = 0
        for var in free_vars(e):
            at = self.depth.get(var)
            if at is None:
                if var.dtype.is_handle and var in self.pointers:
                    continue
                raise CompileError(f"the variable {var.name} is used outside of its scope")
            depth = max(depth, at)
        return self.regions[depth]

    def forget(self, data: Var) -> None:
        """Drops the values read through `data`, because it is written now."""
        for region in self.regions:
            region.loads.pop(data, None)
            region.read.clear()
            region.exact_read.clear()

    def forget_all(self) -> None:
        """Drops all the values read from memory."""
        for region in self.regions:
            region.forget()

    def complete(
        self, header: str, epilogue: list[str], ending: Sequence[str] = ("  ret void",)
    ) -> str:
        """The text of the function, which returns nothing unless its `ending` does.

        `header` is everything before the brace; every path ends in the block `exit`, which runs
        the lines of `epilogue`.
        """
        self.leave("br label %exit")
        self.blocks[0].lines[:0] = self.allocas
        lines = [f"{header} {{"]
        for block in self.blocks:
            lines.append(f"{block.label}:")
            lines.extend(block.lines)
            lines.append(f"  {block.terminator}")
        lines += ["exit:", *epilogue, *self.last, *ending, "}"]
        return "\n".join(lines)


def _mark(var: Var) -> tuple[Var, str, Terms]:
    """The key that stands among addresses where `var` was bound; it is of none."""
    return var, "", ()


StmtFn = Callable[[FunctionBuilder, Stmt], None]
"""Writes a statement at the end of the innermost region."""


def _movable(e: Expr) -> bool:
    match e:
        case BufferLoad() | Let():
            return False
        case Call(op, _):
            return is_pure(op) and op not in ("if_then_else", "address_of", "call_pure_extern")
        case Div() | Mod() | FloorDiv() | FloorMod():
            return e.dtype.is_float or (isinstance(e.b, IntImm) and e.b.value != 0)
    return True


def typed(e: Expr, value: str) -> str:
    """`<type> <value>` of an expression."""
    return f"{llvm_type(e.dtype)} {value}"
