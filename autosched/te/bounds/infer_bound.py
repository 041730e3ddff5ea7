"""InferBound: the domain of every loop of a normalised schedule.

Stages are visited from the last to the first. The domains of a stage's axes are the region that
its consumers read in one iteration of the loop that the stage is attached to. The domains of its
loops follow from those of the axes.

docs/semantics/bounds.md has the rules.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING

from autosched.arith import Analyzer, IntSet
from autosched.arith.interval_eval import eval_set
from autosched.arith.largest_value import largest_value
from autosched.errors import ScheduleError
from autosched.te.bounds.affine import simplify_affine
from autosched.te.bounds.attach_path import attach_path, scans_of_inits
from autosched.te.bounds.message_passing import (
    pass_down_domain,
    pass_up_domain,
    pass_up_index,
)
from autosched.te.bounds.region import Regions, record_reads
from autosched.te.bounds.scan_fix_point import scan_fix_points
from autosched.te.bounds.thread_scope import (
    GLOBAL,
    WARP,
    inferred_storage_rank,
    storage_rank,
    thread_rank,
)
from autosched.te.operations.graph import feed_graph, read_graph
from autosched.te.operations.operation import (
    ComputeOp,
    Operation,
    PlaceholderOp,
    ScanOp,
)
from autosched.te.operations.tensor import Tensor
from autosched.te.operations.tensor_compute import TensorComputeOp
from autosched.te.relations import AttachType, Fuse
from autosched.tir.constants import is_one, is_zero
from autosched.tir.expr import Expr, IntImm, IterVar, Range, Var
from autosched.tir.op import add, cast, max_, sub
from autosched.tir.walk import free_vars, substitute

if TYPE_CHECKING:
    from autosched.te.schedule.schedule import Schedule
    from autosched.te.schedule.stage import Stage

Domains = dict[IterVar, Range]


def infer_bound(sch: Schedule) -> Domains:
    """The domain of every itervar of every stage of the normalised schedule `sch`.

    Mins and extents are simplified and of the itervar's type; a min may mention the loop
    variables (or thread variables) around the stage. Raises ScheduleError when a stage is attached
    where its consumers cannot use it, or when a thread axis would have two extents.
    """
    context = _Context(sch)
    domains = context.domains
    for stage in reversed(sch.stages):
        if stage.attach_type is AttachType.INLINED:
            continue
        if stage.is_output or isinstance(stage.op, PlaceholderOp):
            _declared_domains(stage, domains)
        else:
            context.root_bounds(stage)
        pass_down_domain(stage, domains, context.analyzer_for(stage))
        for iv in stage.env_thread_axes:
            if iv.dom is None:
                raise ScheduleError(
                    f"infer_bound: stage {stage.op.name}, thread axis {iv.thread_tag}: env_threads "
                    "needs an axis with a domain"
                )
            domains[iv] = iv.dom
    result = {iv: context.final(iv, dom) for iv, dom in domains.items()}
    for stage in context.stage_of.values():
        context.check_place(stage, result)
    return result


def _declared_domains(stage: Stage, domains: Domains) -> None:
    if stage.attach_spec().attach_type is not AttachType.GROUP_ROOT:
        raise ScheduleError(
            f"infer_bound: stage {stage.op.name} is an output and must be computed at root"
        )
    for iv in stage.op.root_iter_vars:
        assert iv.dom is not None
        domains[iv] = iv.dom


WHOLE_TILES = "whole_tiles"
"""The attribute of an operation that is computed in whole tiles: a tile size for each axis.

The inferred extent of an axis is rounded up to a multiple of its tile size. The operation must be
defined on the added elements, too."""

CONSTANT_READS = "constant_reads"
"""The attribute of an operation that is computed in tiles: regions that a tile reads are constant.

It reads at indices such as min(i, 499), so that the last tile needs less than others."""


def _not_negative(steps: Expr, first: Expr) -> Expr:
    """The number of `steps` that a scan runs after its `first` ones, at least 0.

    `steps` is negative where consumers read only some of the first steps, all of which are
    computed.
    """
    if isinstance(steps, IntImm):
        return steps if steps.value >= 0 else IntImm(0, steps.dtype)
    # Consumers read one step at least, so that `steps` is not negative after a single first step.
    return steps if is_one(first) else max_(steps, 0)


def _rounded(dom: Range, multiple: int) -> Range:
    if not isinstance(dom.extent, IntImm) or dom.extent.value % multiple == 0:
        return dom
    extent = -(-dom.extent.value // multiple) * multiple
    return Range(dom.min, IntImm(extent, dom.extent.dtype))


class _Context:
    """The state of one run of infer_bound: the domains found so far, and facts of the schedule.

    `stage_of` maps the operation of each stage that is not inlined to the stage, `feed` each tensor
    to the operations that read it, `threads` each bound loop to its thread axis, and `paths` each
    stage to the loops around it, innermost first.
    """

    def __init__(self, sch: Schedule) -> None:
        active = [s for s in sch.stages if s.attach_type is not AttachType.INLINED]
        self.domains: Domains = {}
        self._analyzer = Analyzer(as_ansor=True)
        self._told = 0
        self._fused = {r.fused for s in active for r in s.relations if isinstance(r, Fuse)}
        self.stage_of: dict[Operation, Stage] = {s.op: s for s in active}
        self.feed = feed_graph(self.stage_of)
        self.threads: dict[IterVar, IterVar] = {
            iv: attr.bind_thread
            for s in active
            for iv, attr in s.iter_var_attrs.items()
            if attr.bind_thread is not None
        }
        self.scans = scans_of_inits(active)
        self.paths = {s: attach_path(s, self.scans) for s in active}
        self.regions = Regions()
        scans = [s for s in active if isinstance(s.op, ScanOp)]
        self._in_scans = read_graph(s.op for s in scans)
        self._steps = {iv for s in scans for iv in s.leaf_iter_vars}

    def tag(self, iv: IterVar) -> str:
        return self.threads.get(iv, iv).thread_tag

    def storage(self, stage: Stage) -> int:
        """The storage rank of the tensors that `stage` computes."""
        if stage.scope:
            return storage_rank(stage.scope)
        return inferred_storage_rank(map(self.tag, self.paths[stage]))

    def relaxed(self, iv: IterVar, found: bool, storage: int) -> bool:
        """True when the producer's region covers all iterations of loop `iv` rather than one.

        `found` says whether the producer is attached at `iv` or inside of it, `storage` is the
        storage rank of the producer. A thread loop is relaxed where its threads share the storage.
        """
        tag = self.tag(iv)
        if not tag:
            return not found
        if storage == WARP and tag == "threadIdx.x":
            return True
        return storage <= thread_rank(tag)

    def root_bounds(self, stage: Stage) -> None:
        """Record the domains of the axes of `stage`, from what its consumers read."""
        outputs = stage.op.outputs
        needed: dict[Tensor, list[list[IntSet]]] = {t: [[] for _ in t.shape] for t in outputs}
        consumers: dict[Operation, None] = {}
        for tensor in outputs:
            consumers.update(dict.fromkeys(self.feed.get(tensor, ())))
        for consumer in consumers:
            self._read_by(consumer, stage, needed)
        self._gather(stage, needed)

    def _read_by(
        self, consumer: Operation, stage: Stage, needed: dict[Tensor, list[list[IntSet]]]
    ) -> None:
        reader = self.stage_of[consumer]
        # The first steps of a scan are computed before its loop over time, not inside of it.
        is_init = self.scans.get(stage.op) is reader
        path = self.paths[reader if is_init else stage]
        target = path[0] if path else None
        storage = self.storage(stage)
        found = False
        sets: dict[IterVar, IntSet] = {}
        for iv in reversed(reader.leaf_iter_vars):
            found = found or iv is target
            dom = self.domains[iv]
            if is_one(dom.extent):
                sets[iv] = IntSet.single_point(dom.min)
            elif self.relaxed(iv, found, storage):
                sets[iv] = IntSet.from_range(dom)
            else:
                sets[iv] = IntSet.single_point(self._value(reader, iv, dom))
        relax: dict[Var, IntSet] = {}
        for iv in self.paths[reader]:
            found = found or iv is target
            dom = self.domains[iv]
            if self.relaxed(iv, found, storage):
                relax[iv.var] = IntSet.from_range(dom)
                if iv in self.threads:
                    thread = self.threads[iv]
                    relax[thread.var] = IntSet.from_range(self.domains[thread])
        if target is not None and not found:
            raise ScheduleError(
                f"infer_bound: stage {stage.op.name}, attached at {target.var.name}: cannot find "
                f"the producer along the loop nest of its consumer {consumer.name}; attach it to a "
                "loop that encloses all its consumers"
            )
        if WHOLE_TILES in stage.op.attrs and isinstance(consumer, ComputeOp):
            self._read_exactly(reader, consumer, sets, relax, needed)
            return
        pass_up_domain(reader, self.domains, sets, self.regions.unbound)
        known = self._axis_sets(consumer, sets, relax)
        record_reads(consumer, known, needed, self.domains)

    def _read_exactly(
        self,
        reader: Stage,
        consumer: ComputeOp,
        sets: dict[IterVar, IntSet],
        relax: dict[Var, IntSet],
        needed: dict[Tensor, list[list[IntSet]]],
    ) -> None:
        """Append to `needed` the sets that `consumer` reads, from indices in terms of its loops.

        The index (n * H + h) * W + w of axes that were fused simplifies to the fused loop, of which
        a block runs a part. Evaluated axis by axis it would cover all values of each axis. It does
        not simplify where the fused loop is a sum of others, of which the remainders alone may be
        simple: a variable stands for each such loop until the index is simplified.
        """
        analyzer = Analyzer()
        for iv, dom in self.domains.items():
            analyzer.bind(iv.var, dom, override=True)
            if iv in self.threads:
                analyzer.bind(self.threads[iv].var, Range(sub(dom.min, dom.min), dom.extent), True)
        values: dict[IterVar, Expr] = {}
        known = dict(relax)
        for iv in reader.leaf_iter_vars:
            point = sets[iv].is_single_point
            values[iv] = sets[iv].min_value if point else iv.var
            if not point:
                known[iv.var] = sets[iv]
        fused: dict[Var, Expr] = {}

        def named(iv: IterVar, value: Expr) -> Expr:
            if isinstance(value, Var):
                return value
            var = Var(iv.var.name, value.dtype)
            analyzer.bind(var, self.domains[iv])
            fused[var] = value
            return var

        pass_up_index(reader, self.domains, values, name_fused=named)
        table = {iv.var: values[iv] for iv in consumer.axis}
        for load in consumer.distinct_loads:
            for dim, index in enumerate(load.indices if load.producer in needed else ()):
                place = analyzer.simplify(substitute(index, table))
                for var, value in reversed(fused.items()):
                    place = analyzer.simplify(substitute(place, {var: value}))
                needed[load.producer][dim].append(eval_set(place, known))

    def check_place(self, stage: Stage, domains: Domains) -> None:
        """ScheduleError when a domain of `stage` mentions a loop that is not around the stage.

        Such a loop may be a thread axis whose threads do not share the stage's memory: each thread
        would need its own part, but the stage is outside of the loop that starts the threads.
        """
        axes = stage.op.root_iter_vars
        ends = [e for iv in axes for e in (domains[iv].min, domains[iv].extent)]
        foreign = {v for e in ends if not isinstance(e, IntImm) for v in free_vars(e)}
        foreign -= {iv.var for iv in axes}
        if not foreign:
            return
        for iv in self.paths[stage]:
            foreign -= {iv.var, self.threads.get(iv, iv).var}
        for iv in domains:
            if iv.var in foreign:
                raise ScheduleError(
                    f"infer_bound: stage {stage.op.name}: what its consumers read depends on "
                    f"{iv.thread_tag or iv.var.name}, which is not around the stage; attach it to "
                    "a loop inside of that one, or store it where all its threads see it"
                )

    def _value(self, reader: Stage, iv: IterVar, dom: Range) -> Expr:
        """The value of loop `iv` in one iteration: its variable, or its thread's plus the min.

        ScheduleError for a loop that is not bound and does not start at 0.
        """
        thread = self.threads.get(iv)
        if thread is not None:
            return add(dom.min, cast(iv.var.dtype, thread.var))
        if not is_zero(dom.min):
            raise ScheduleError(
                f"infer_bound: stage {reader.op.name}, loop {iv.var.name} starts at {dom.min!r}, "
                "expected 0; normalize the schedule first"
            )
        return iv.var

    def _axis_sets(
        self, consumer: Operation, sets: dict[IterVar, IntSet], relax: dict[Var, IntSet]
    ) -> dict[IterVar, tuple[Range, IntSet]]:
        """For each axis of the consumer its range in one iteration, and the set of its values.

        The set is that range, evaluated over the variables in `relax` that its ends mention. In a
        step of a scan, iterations that are skipped do not count along an axis of extent 1: they
        would read later steps, which are not computed yet.
        """
        in_step = not self._steps.isdisjoint(self.paths[self.stage_of[consumer]])
        known: dict[IterVar, tuple[Range, IntSet]] = {}
        for iv in consumer.root_iter_vars:
            assert iv.dom is not None
            found = sets.get(iv)
            dom = iv.dom if found is None else self.regions.cover(found, iv.dom)
            if in_step and is_one(self.domains[iv].extent):
                dom = self.domains[iv]
            if relax and not (free_vars(dom.min) | free_vars(dom.extent)).isdisjoint(relax):
                last = sub(add(dom.min, dom.extent), 1)
                low = eval_set(dom.min, relax).min_value
                high = eval_set(last, relax).max_value
                known[iv] = (dom, IntSet.interval(low, high))
            else:
                known[iv] = (dom, IntSet.from_range(dom))
        return known

    def _gather(self, stage: Stage, needed: dict[Tensor, list[list[IntSet]]]) -> None:
        op, regions, domains = stage.op, self.regions, self.domains
        reads = list(needed.values())
        if isinstance(op, ComputeOp | TensorComputeOp):
            whole = op.attrs.get(WHOLE_TILES)
            for dim, iv in enumerate(op.axis):
                assert iv.dom is not None
                found = self._region(stage, (s for r in reads for s in r[dim]), iv.dom)
                domains[iv] = found if whole is None else _rounded(found, whole[dim])
            rest: Iterable[IterVar] = op.reduce_axis
        elif isinstance(op, ScanOp):
            declared = op.scan_axis.dom
            assert declared is not None
            time = regions.union((s for r in reads for s in r[0]), declared)
            steps = regions.simplify(sub(add(time.min, time.extent), declared.min))
            domains[op.scan_axis] = Range(declared.min, _not_negative(steps, declared.min))
            rest = self._gather_spatial(op, needed)
        else:
            rest = op.root_iter_vars
        for iv in rest:
            assert iv.dom is not None
            domains[iv] = iv.dom

    def _region(self, stage: Stage, sets: Iterable[IntSet], declared: Range) -> Range:
        """The range of an axis of `stage` that covers all `sets`.

        In memory of a block or a thread, and for readers with CONSTANT_READS, an axis of constant
        size has a constant extent that is enough for all iterations. It is `declared` where no
        smaller one is known to be enough. One that is constant once the domains of loops are known
        stays as it is. A scan, and what it reads, computes what is needed alone: it is not defined
        on all of the declared domain.
        """
        found = self.regions.union(sets, declared)
        if isinstance(found.extent, IntImm) or not isinstance(declared.extent, IntImm):
            return found
        if stage.op in self._in_scans:
            return found
        readers = (op for tensor in stage.op.outputs for op in self.feed.get(tensor, ()))
        if self.storage(stage) == GLOBAL and not any(CONSTANT_READS in op.attrs for op in readers):
            return found
        analyzer = Analyzer()
        for iv, dom in self.domains.items():
            analyzer.bind(iv.var, dom, override=True)
        if isinstance(analyzer.simplify(found.extent), IntImm):
            return found
        most = largest_value(found.extent, analyzer)
        if most is None or most >= declared.extent.value:
            return declared
        return Range(found.min, IntImm(most, found.extent.dtype))

    def _gather_spatial(
        self, op: ScanOp, needed: dict[Tensor, list[list[IntSet]]]
    ) -> list[IterVar]:
        """Record the domains of a scan's fixed points; return the axes that keep their domain.

        The axes of a state whose first steps are an input keep it, too: the input is copied whole.
        """
        fixed = scan_fix_points(op)
        reads: dict[IterVar, list[IntSet]] = {}
        copied: set[IterVar] = set()
        axes = iter(op.spatial_axis)
        for init, output in zip(op.init, op.outputs, strict=True):
            for dim in range(1, output.ndim):
                iv = next(axes)
                reads[iv] = needed[output][dim]
                if isinstance(init.op, PlaceholderOp):
                    copied.add(iv)
        rest = []
        for iv in op.spatial_axis:
            together = fixed.get(iv)
            if together is None or not together.isdisjoint(copied):
                rest.append(iv)
                continue
            assert iv.dom is not None
            sets = (s for other in op.spatial_axis if other in together for s in reads[other])
            self.domains[iv] = self.regions.union(sets, iv.dom)
        return rest

    def analyzer_for(self, stage: Stage) -> Analyzer:
        """The shared analyzer, told all domains found so far if a domain of `stage` is symbolic."""
        if all(isinstance(self.domains[iv].extent, IntImm) for iv in stage.op.root_iter_vars):
            return self._analyzer
        return self._informed()

    def _informed(self) -> Analyzer:
        """The shared analyzer, told all domains except those of fused loops, which Ansor omits."""
        for iv, dom in islice(self.domains.items(), self._told, None):
            if iv not in self._fused:
                self._analyzer.bind(iv.var, dom, override=True)
        self._told = len(self.domains)
        return self._analyzer

    def final(self, iv: IterVar, dom: Range) -> Range:
        """`dom` with min and extent simplified and converted to the type of `iv`."""
        first, length, dtype = dom.min, dom.extent, iv.var.dtype
        if first.__class__ is IntImm and length.__class__ is IntImm:
            if first.dtype is dtype and length.dtype is dtype:
                return dom
        low, extent = self._final(iv, dom.min), self._final(iv, dom.extent)
        if not isinstance(extent, IntImm):
            constant = self._knowing_all.simplify(extent)
            extent = constant if isinstance(constant, IntImm) else extent
        return dom if low is dom.min and extent is dom.extent else Range(low, extent)

    def _final(self, iv: IterVar, e: Expr) -> Expr:
        e = cast(iv.var.dtype, e)
        if isinstance(e, IntImm):
            return e
        # Knowing the domains would change nothing here: `e` has no variable of a loop of extent 1.
        found = simplify_affine(e)
        return self._informed().simplify(e) if found is None else found

    @cached_property
    def _knowing_all(self) -> Analyzer:
        """An analyzer that knows all domains: finds more constant extents than Ansor's analyzer."""
        analyzer = Analyzer()
        for iv, dom in self.domains.items():
            analyzer.bind(iv.var, dom, override=True)
        return analyzer
