"""Inserts barriers between the steps of a scan where threads read each other's states.

before:
    launch(threadIdx.x, 8)
    s[0, threadIdx.x] = X[0, threadIdx.x]
    for t in range(3):
        s[t + 1, threadIdx.x] = s[t, (threadIdx.x + 1) % 8] + X[t + 1, threadIdx.x]
after:
    launch(threadIdx.x, 8)
    s[0, threadIdx.x] = X[0, threadIdx.x]
    for t in range(3):
        tvm_storage_sync("shared")
        s[t + 1, threadIdx.x] = s[t, (threadIdx.x + 1) % 8] + X[t + 1, threadIdx.x]

This concerns states in global memory: ThreadSync places the barriers for shared memory, and memory
private to a thread needs none. A barrier also orders the accesses of a block's threads to global
memory, but nothing makes blocks wait for each other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from autosched.arith import Analyzer
from autosched.errors import ScheduleError
from autosched.te.bounds.thread_scope import is_virtual_thread, thread_rank
from autosched.te.operations.operation import ScanOp
from autosched.te.operations.tensor import Tensor
from autosched.tir.constants import is_one
from autosched.tir.dtype import DType, int32
from autosched.tir.expr import Call, Expr, ProducerLoad, Range, StringImm, Var
from autosched.tir.linear import linear
from autosched.tir.stmt import AttrStmt, Evaluate, For, ProducerRealize, ProducerStore, Stmt, seq
from autosched.tir.walk import (
    all_exprs,
    distinct,
    free_vars,
    map_children,
    stmts,
    substitute,
    uses,
)

STEP = "scan_step"
"""The key of the attribute around the update stages of one step."""

_BARRIER = Evaluate(Call(int32, "tvm_storage_sync", (StringImm("shared"),)))
Indices = tuple[Expr, ...]


def order_steps(s: Stmt, conditional: Collection[Tensor]) -> Stmt:
    """`s` with each STEP attribute replaced by a barrier, or by nothing where none is needed.

    `conditional` are tensors that are stored only where a user's store predicate holds, so that the
    element a thread reads may have been stored by another one. ScheduleError where blocks would
    have to wait for each other.
    """
    if isinstance(s, AttrStmt) and s.key == "thread_extent":
        return _Kernel(s, conditional).ordered(s)
    if isinstance(s, AttrStmt) and s.key == STEP:  # outside of a kernel: launches order the steps
        return order_steps(s.body, conditional)
    return map_children(s, lambda child: order_steps(child, conditional))


class _Kernel:
    """The stores that the threads of one kernel make to tensors realized outside of the kernel.

    `tags` maps each thread variable to its tag, `same` each further variable of a tag to the first
    one. `stores` holds the index tuples of all stores, by tensor. `uncertain` are tensors of which
    a thread may not have stored the elements that its indices say.
    """

    def __init__(self, region: AttrStmt, conditional: Collection[Tensor]) -> None:
        self.uncertain = set(conditional)
        self.tags: dict[Var, str] = {}
        self.loops: dict[Var, For] = {}
        self.stores: dict[Tensor, list[Indices]] = {}
        self.analyzer = Analyzer()
        self.numbered: dict[tuple[int, DType], Var] = {}
        own: set[Tensor] = set()
        axes: dict[str, Var] = {}
        same: dict[Var, Expr] = {}
        for s in stmts(region):
            match s:
                case AttrStmt(key="thread_extent") if not is_one(s.value):
                    var = s.node.var
                    same[var] = axes.setdefault(s.node.thread_tag, var)
                    self.tags[var] = s.node.thread_tag
                    self.analyzer.bind(var, Range.of(s.value), override=True)
                case For():
                    self.loops[s.loop_var] = s
                    self.analyzer.bind(s.loop_var, Range(s.min, s.extent), override=True)
                case ProducerRealize():
                    own.add(s.producer)
                case AttrStmt(key="buffer_bind_scope", node=(_, tensor)):
                    if isinstance(tensor.op, ScanOp):  # an intrinsic stores or reads a state
                        self.uncertain.add(tensor)
                        self.stores.setdefault(tensor, []).append(_first_element(s))
                case ProducerStore():
                    self.stores.setdefault(s.producer, []).append(s.indices)
        self.same = {var: axis for var, axis in same.items() if var is not axis}
        self.stores = {
            tensor: [self._on_axes(store) for store in found]
            for tensor, found in self.stores.items()
            if tensor not in own
        }

    def _on_axes(self, indices: Indices) -> Indices:
        """`indices`, simplified, with one variable for all thread axes of the same tag."""
        return tuple(self.analyzer.simplify(substitute(e, self.same)) for e in indices)

    def ordered(self, s: Stmt) -> Stmt:
        if not isinstance(s, AttrStmt) or s.key != STEP:
            return map_children(s, self.ordered)
        body = self.ordered(s.body)
        return seq(_BARRIER, body) if self._must_wait(s) else body

    def _must_wait(self, step: AttrStmt) -> bool:
        """Whether a thread may read in `step` an element that another thread of its block stored.

        ScheduleError when another block may have stored it.
        """
        wait = False
        for tensor, indices in _reads(step):
            read = self._on_axes(indices)
            for store in self.stores.get(tensor, ()):
                missed = self._missed(store)
                if missed or tensor in self.uncertain or not self._is_own(store, read):
                    self._check_blocks(step, tensor, store, read)
                    self._check_alike(step, tensor, missed)
                    wait = True
        return wait

    def _missed(self, store: Indices) -> list[str]:
        """The tags of the thread axes that `store` does not depend on, without virtual threads.

        All threads along such an axis store the same elements.
        """
        stored = set().union(*map(free_vars, store))
        axes = self.tags.keys() - self.same.keys() - stored
        return sorted(self.tags[v] for v in axes if not is_virtual_thread(self.tags[v]))

    def _check_alike(self, step: AttrStmt, tensor: Tensor, missed: Sequence[str]) -> None:
        """ScheduleError when `missed` has a block index: all blocks would store the same state."""
        tags = " and ".join(tag for tag in missed if thread_rank(tag) == 0)
        if tags:
            raise ScheduleError(
                f"schedule_ops: stage {step.node.name}: all blocks along {tags} store the same "
                f"elements of {tensor.name} and read them in the next step; bind to {tags} an axis "
                "of the update and of the first steps, or leave it out of env_threads"
            )

    def _on_threads(self, indices: Iterable[Expr]) -> list[int]:
        """The dimensions whose indices depend on a thread variable."""
        return [d for d, e in enumerate(indices) if uses(e, self.tags)]

    def _is_own(self, store: Indices, read: Indices) -> bool:
        """True when each thread has itself stored the elements that it reads.

        In the dimensions that depend on threads, the read must have the indices of the store, in
        loops of the same ranges. In the other dimensions each thread stores all indices, as axes
        are independent.
        """
        dims = sorted({*self._on_threads(store), *self._on_threads(read)})
        return self._renamed([store[d] for d in dims]) == self._renamed([read[d] for d in dims])

    def _renamed(self, indices: Sequence[Expr]) -> tuple[list[Expr], list[tuple[Expr, Expr]]]:
        """`indices` with loop variables renamed in order of occurrence, and those loops' ranges."""
        table: dict[Var, Expr] = {}
        ranges: list[tuple[Expr, Expr]] = []
        for var in (part for e in indices for part in distinct(e) if isinstance(part, Var)):
            if var in self.loops and var not in table:
                number = len(table), var.dtype
                table[var] = self.numbered.setdefault(number, Var(f"loop{len(table)}", var.dtype))
                ranges.append((self.loops[var].min, self.loops[var].extent))
        return [substitute(e, table) for e in indices], ranges

    def _check_blocks(self, step: AttrStmt, tensor: Tensor, store: Indices, read: Indices) -> None:
        """ScheduleError unless each block has itself stored the elements that it reads."""
        blocks = {v for v, tag in self.tags.items() if thread_rank(tag) == 0 and v not in self.same}
        stored = set().union(*map(free_vars, store))
        apart = set() if tensor in self.uncertain else blocks - stored
        for at, of in zip(store, read, strict=True):
            if self._is_of_block(at, of, blocks):
                apart |= free_vars(at)
        tags = " and ".join(sorted({self.tags[v] for v in blocks - apart}))
        if tags:
            raise ScheduleError(
                f"schedule_ops: stage {step.node.name}: a step reads what other blocks along "
                f"{tags} may have stored of {tensor.name} in the steps before, and blocks do not "
                "wait for each other; leave out env_threads, so that each step is a kernel of its "
                f"own, or bind to {tags} an axis along which a step reads its own index only"
            )

    def _is_of_block(self, store: Expr, read: Expr, blocks: set[Var]) -> bool:
        """True when equal indices imply the same block.

        Both must be b * n + rest, with one block index b and 0 <= rest < n.
        """
        (a, in_store), (b, in_read) = linear(store), linear(read)
        own = {v: c for v, c in in_store.items() if v in blocks}
        if len(own) != 1 or own != {v: c for v, c in in_read.items() if v in blocks}:
            return False
        ((block, step),) = own.items()
        for constant, terms in ((a, in_store), (b, in_read)):
            low = high = constant
            for term, factor in terms.items():
                if term is block:
                    continue
                if uses(term, blocks):
                    return False
                bound = self.analyzer.const_int_bound(term)
                ends = (factor * bound.min_value, factor * bound.max_value)
                low, high = low + min(ends), high + max(ends)
            if low < 0 or high >= step:
                return False
        return True


def _reads(step: Stmt) -> Iterator[tuple[Tensor, Indices]]:
    """The tensors that `step` reads, with indices; an intrinsic's are where its regions begin."""
    for s in stmts(step):
        if isinstance(s, AttrStmt) and s.key == "buffer_bind_scope":
            yield s.node[1], _first_element(s)
    for e in all_exprs(step):
        if isinstance(e, ProducerLoad):
            yield e.producer, e.indices


def _first_element(scope: AttrStmt) -> Indices:
    """The indices of the first element of the region in a "buffer_bind_scope" attribute."""
    assert isinstance(scope.value, Call)
    return scope.value.args[::2]
