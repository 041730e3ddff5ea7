"""A stage: one operation of a schedule and the arrangement of its loops.

The primitives are functions, grouped by what they change: `loop_primitives.py` (which loops
there are), `annotate.py` (the kind of a loop), `placement.py` (where the stage is computed and
stored). A primitive that raises ScheduleError leaves the stage unchanged.
"""

from __future__ import annotations

from autosched.te.operations.operation import Operation
from autosched.te.operations.other_names import OF_SCHEDULES, OtherNames
from autosched.te.relations import AttachType, IterVarAttr, Relation
from autosched.te.schedule import annotate, loop_primitives, placement
from autosched.tir.expr import Expr, IterVar


class Stage(OtherNames):
    """The loops and the placement of one operation.

    `op` changes when caching or inlining rewrites it, `origin_op` does not. `leaf_iter_vars` are
    the current loops, outermost first; `all_iter_vars` the root axes, then all loops that
    primitives made. `relations` say how loops derive from each other. The values of
    `iter_var_attrs` are replaced, never changed, so that copies can share them. A group of stages
    is a Stage with an empty operation.
    """

    __slots__ = (
        "all_iter_vars",
        "attach_ivar",
        "attach_stage",
        "attach_type",
        "env_thread_axes",
        "group",
        "is_double_buffered",
        "is_output",
        "iter_var_attrs",
        "leaf_iter_vars",
        "num_child_stages",
        "op",
        "origin_op",
        "relations",
        "scope",
        "store_predicate",
    )
    other_names = OF_SCHEDULES

    def __init__(self, op: Operation) -> None:
        self.op = op
        self.origin_op = op
        self.all_iter_vars: list[IterVar] = list(op.root_iter_vars)
        self.leaf_iter_vars: list[IterVar] = list(op.root_iter_vars)
        self.relations: list[Relation] = []
        self.iter_var_attrs: dict[IterVar, IterVarAttr] = {}
        self.env_thread_axes: list[IterVar] = []
        self.attach_type = AttachType.GROUP_ROOT
        self.attach_ivar: IterVar | None = None
        self.attach_stage: Stage | None = None
        self.scope = ""
        self.is_output = False
        self.is_double_buffered = False
        self.store_predicate: Expr | None = None
        self.group: Stage | None = None
        self.num_child_stages = 0

    split = loop_primitives.split
    fuse = loop_primitives.fuse
    reorder = loop_primitives.reorder
    tile = loop_primitives.tile

    bind = annotate.bind
    vectorize = annotate.vectorize
    unroll = annotate.unroll
    parallel = annotate.parallel
    pragma = annotate.pragma
    tensorize = annotate.tensorize
    prefetch = annotate.prefetch
    storage_align = annotate.storage_align

    compute_at = placement.compute_at
    compute_inline = placement.compute_inline
    compute_root = placement.compute_root
    set_scope = placement.set_scope
    set_store_predicate = placement.set_store_predicate
    double_buffer = placement.double_buffer
    env_threads = placement.env_threads

    @property
    def name(self) -> str:
        """The operation's name."""
        return self.op.name

    def attach_spec(self) -> Stage:
        """The stage, or the group around it, whose attachment says where the stage is computed."""
        spec = self
        while spec.attach_type is AttachType.GROUP_ROOT and spec.group is not None:
            spec = spec.group
        return spec

    def leaf_place(self, iv: IterVar) -> int | None:
        """The position of `iv` among the leaf loops; None where it is none of them.

        `==` of two axes makes a comparison of values, which takes ten times as long as `is`.
        """
        for place, leaf in enumerate(self.leaf_iter_vars):
            if leaf is iv:
                return place
        return None

    def reset_loops(self, op: Operation) -> None:
        """Make `op` the operation and its axes the loops; keep only attributes of these axes."""
        self.op = op
        self.all_iter_vars = list(op.root_iter_vars)
        self.leaf_iter_vars = list(op.root_iter_vars)
        self.relations = []
        self.iter_var_attrs = {
            iv: attr for iv, attr in self.iter_var_attrs.items() if iv in self.all_iter_vars
        }

    def copy(self) -> Stage:
        """A copy with lists of its own, which still refers to the old attach stage and group."""
        new = object.__new__(Stage)
        new.op = self.op
        new.origin_op = self.origin_op
        new.all_iter_vars = self.all_iter_vars.copy()
        new.leaf_iter_vars = self.leaf_iter_vars.copy()
        new.relations = self.relations.copy()
        new.iter_var_attrs = self.iter_var_attrs.copy()
        new.env_thread_axes = self.env_thread_axes.copy()
        new.attach_type = self.attach_type
        new.attach_ivar = self.attach_ivar
        new.attach_stage = self.attach_stage
        new.scope = self.scope
        new.is_output = self.is_output
        new.is_double_buffered = self.is_double_buffered
        new.store_predicate = self.store_predicate
        new.group = self.group
        new.num_child_stages = self.num_child_stages
        return new

    def __repr__(self) -> str:
        leaves = ", ".join(iv.var.name for iv in self.leaf_iter_vars)
        return f"Stage({self.op.name}: {leaves})"
