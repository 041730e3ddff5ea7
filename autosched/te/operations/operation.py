"""Operations: the nodes of a tensor program."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any

from autosched.arguments import found
from autosched.errors import ScheduleError
from autosched.te.operations.other_names import OF_OPERATIONS, OtherNames
from autosched.te.operations.tensor import Tensor
from autosched.tir.buffer import Buffer
from autosched.tir.dtype import DType
from autosched.tir.expr import Expr, IterVar, ProducerLoad, Reduce
from autosched.tir.given import names_and_values, text
from autosched.tir.stmt import Stmt
from autosched.tir.walk import distinct, post_order, pre_order
from autosched.words import count

LAYOUT_FREE = "layout_free_placeholders"  # attribute: inputs whose memory layout may be changed
CONST_TENSOR_ATTR = "auto_scheduler_simplify_const_tensor_indices"
"""Attribute: the axes that index a matrix of constants, whose loops are to be unrolled."""
CONST_MATRIX = "const_matrix"
"""Attribute of such a matrix: reading it costs nothing, so features are extracted with it as 1."""


class Operation(OtherNames):
    """The base of all operations: a name, a tag, attributes, and output tensors.

    `attrs` holds Ansor's hints, e.g. auto_scheduler_no_split_at_inner or LAYOUT_FREE.
    """

    __slots__ = ("__weakref__", "attrs", "name", "outputs", "tag")
    other_names = OF_OPERATIONS

    def __init__(self, name: str, tag: str, attrs: Mapping[str, Any]) -> None:
        if not isinstance(name, str):
            raise TypeError(f"the name of a tensor is text, {found(name)}")
        self.name = name
        self.tag = text(f"{name}: a tag", tag)
        self.attrs = names_and_values(f"{name}: attrs", attrs)
        self.outputs: tuple[Tensor, ...] = ()

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The tensors read, without repeats, in order of first appearance."""
        return ()

    @property
    def root_iter_vars(self) -> tuple[IterVar, ...]:
        """The data axes, then the reduction axes."""
        return ()

    def output(self, index: int = 0) -> Tensor:
        """The tensor of output `index`. Raises ScheduleError where there is none."""
        try:
            return self.outputs[index]
        except IndexError:
            number = count(len(self.outputs), "output")
            raise ScheduleError(f"output {index}: {self.name} has {number}") from None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name})"


class PlaceholderOp(Operation):
    """An input tensor of `shape` and `dtype`."""

    __slots__ = ("dtype", "shape")

    def __init__(self, name: str, shape: tuple[Expr, ...], dtype: DType) -> None:
        super().__init__(name, "", {})
        self.shape = shape
        self.dtype = dtype
        self.outputs = (Tensor(self, 0, shape, dtype),)


class ComputeOp(Operation):
    """The operation `outputs[k][axis...] = body[k]`; several outputs share the axes.

    The bodies are either all plain expressions or all Reduce over `reduce_axis`. `reads_inside` is
    set once create_schedule has checked that all reads of tensors are in bounds.
    """

    __slots__ = (
        "_distinct_loads",
        "_inputs",
        "_loads",
        "_roots",
        "axis",
        "body",
        "reads_inside",
        "reduce_axis",
    )

    def __init__(
        self,
        name: str,
        axis: Sequence[IterVar],
        body: Sequence[Expr],
        tag: str = "",
        attrs: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(name, tag, {} if attrs is None else attrs)
        self.axis = tuple(axis)
        self.body = tuple(body)
        first = self.body[0]
        self.reduce_axis = first.axis if isinstance(first, Reduce) else ()
        self._roots = (*self.axis, *self.reduce_axis)
        self.reads_inside = False
        self._loads: tuple[ProducerLoad, ...] | None = None
        self._distinct_loads: tuple[ProducerLoad, ...] | None = None
        self._inputs: tuple[Tensor, ...] | None = None
        shape = tuple(iv.dom.extent for iv in self.axis if iv.dom is not None)
        self.outputs = tuple(Tensor(self, k, shape, e.dtype) for k, e in enumerate(self.body))

    @property
    def root_iter_vars(self) -> tuple[IterVar, ...]:
        """The data axes, then the reduction axes."""
        return self._roots

    @property
    def loads(self) -> tuple[ProducerLoad, ...]:
        """All tensor loads in the bodies, in the order of `tensor_loads`."""
        if self._loads is None:
            self._loads = tuple([load for body in self.body for load in tensor_loads(body)])
        return self._loads

    @property
    def distinct_loads(self) -> tuple[ProducerLoad, ...]:
        """The different ones of `loads`, found without following values that are used again."""
        if self._distinct_loads is None:
            found = (node for body in self.body for node in distinct(body))
            loads = (node for node in found if isinstance(node, ProducerLoad))
            self._distinct_loads = tuple(dict.fromkeys(loads))
        return self._distinct_loads

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The tensors that the bodies and the reduction domains read, in order of first occurrence.

        A tensor that is read to compute an index comes before the tensor indexed, as in TVM, whose
        stages are numbered in this order.
        """
        if self._inputs is None:
            domains = (iv.dom for iv in self.reduce_axis if iv.dom is not None)
            ends = (e for dom in domains for e in (dom.min, dom.extent))
            read = (node for e in chain(self.body, ends) for node in post_order(e))
            self._inputs = tuple(
                dict.fromkeys(node.producer for node in read if isinstance(node, ProducerLoad))
            )
        return self._inputs


class ScanOp(Operation):
    """A recurrence along the first axis: state[t] = update(state[t-1], ...), state[0..] = init."""

    __slots__ = ("init", "inputs_list", "scan_axis", "spatial_axis", "state", "update")

    def __init__(
        self,
        name: str,
        scan_axis: IterVar,
        init: Sequence[Tensor],
        update: Sequence[Tensor],
        state: Sequence[Tensor],
        inputs: Sequence[Tensor],
        spatial_axis: Sequence[IterVar],
        tag: str = "",
        attrs: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(name, tag, {} if attrs is None else attrs)
        self.scan_axis = scan_axis
        self.init = tuple(init)
        self.update = tuple(update)
        self.state = tuple(state)
        self.inputs_list = tuple(inputs)
        self.spatial_axis = tuple(spatial_axis)
        self.outputs = tuple(Tensor(self, k, s.shape, s.dtype) for k, s in enumerate(self.state))

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The initial tensors, then the updates."""
        return (*self.init, *self.update)

    @property
    def root_iter_vars(self) -> tuple[IterVar, ...]:
        """The time axis, then the spatial axes, state by state."""
        return (self.scan_axis, *self.spatial_axis)


class ExternOp(Operation):
    """An operation whose outputs a hand-written statement over buffers fills."""

    __slots__ = ("body", "input_buffers", "input_tensors", "output_buffers")

    def __init__(
        self,
        name: str,
        inputs: Sequence[Tensor],
        input_buffers: Sequence[Buffer],
        output_buffers: Sequence[Buffer],
        body: Stmt,
        tag: str = "",
        attrs: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(name, tag, {} if attrs is None else attrs)
        self.input_tensors = tuple(inputs)
        self.input_buffers = tuple(input_buffers)
        self.output_buffers = tuple(output_buffers)
        self.body = body
        self.outputs = tuple(
            Tensor(self, k, b.shape, b.dtype) for k, b in enumerate(self.output_buffers)
        )

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The tensors that the statement reads, each once."""
        return tuple(dict.fromkeys(self.input_tensors))


def tensor_loads(expr: Expr) -> list[ProducerLoad]:
    """All tensor loads in `expr`, parents first, left to right (order of first appearance)."""
    return [node for node in pre_order(expr) if isinstance(node, ProducerLoad)]


def reading(table: Mapping[Tensor, Tensor]) -> Callable[[Expr], Expr | None]:
    """The function for `rewrite_expr` by which loads of t become loads of `table[t]`."""

    def load(e: Expr) -> Expr | None:
        if isinstance(e, ProducerLoad) and e.producer in table:
            return ProducerLoad(table[e.producer], e.indices)
        return None

    return load
