"""Calls of tensor intrinsics in te.compute: a tensor filled region by region by statements."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autosched.arith import Analyzer
from autosched.te.operations import tensor_intrin as tensor_intrin_module
from autosched.te.operations.operation import Operation, reading, tensor_loads
from autosched.te.operations.tensor import Tensor, TensorRegion
from autosched.te.operations.tensor_intrin import TensorIntrin
from autosched.tir.expr import Expr, IntImm, IterKind, IterVar, ProducerLoad, Range, Reduce, Var
from autosched.tir.op import as_expr, const
from autosched.tir.walk import distinct, free_vars, rewrite_expr


@dataclass(frozen=True, slots=True, eq=False)
class IntrinCall:
    """A call of `intrin`: a tensor region for each input, and a value for each scalar parameter.

    The call runs inside loops over `reduce_axis`, across which it accumulates.
    """

    intrin: TensorIntrin
    regions: tuple[TensorRegion, ...]
    scalars: tuple[Expr, ...]
    reduce_axis: tuple[IterVar, ...]

    def map(
        self, expr: Callable[[Expr], Expr], tensors: Mapping[Tensor, Tensor] | None = None
    ) -> IntrinCall:
        """This call with its indices and scalars mapped, reading `tensors[t]` instead of `t`."""
        table = tensors or {}
        regions = tuple(
            TensorRegion(
                table.get(r.tensor, r.tensor),
                tuple(Range(expr(i.min), expr(i.extent)) for i in r.ranges),
            )
            for r in self.regions
        )
        return IntrinCall(self.intrin, regions, tuple(map(expr, self.scalars)), self.reduce_axis)


class TensorComputeOp(Operation):
    """An operation whose `call` fills the region `outputs[axis..., :]` at each point of `axis`.

    `shape` is the shape of every output: first the extents of `axis`, then the shape of the
    intrinsic's outputs.
    """

    __slots__ = ("axis", "call", "reduce_axis", "shape")

    def __init__(
        self,
        name: str,
        axis: Sequence[IterVar],
        shape: Sequence[Expr],
        call: IntrinCall,
        tag: str = "",
        attrs: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(name, tag, attrs or {})
        self.axis = tuple(axis)
        self.shape = tuple(shape)
        self.call = call
        self.reduce_axis = call.reduce_axis
        types = [t.dtype for t in call.intrin.op.outputs]
        self.outputs = tuple(Tensor(self, k, self.shape, t) for k, t in enumerate(types))

    @property
    def root_iter_vars(self) -> tuple[IterVar, ...]:
        """The loops around the intrinsic: data axes, then reduction axes."""
        return (*self.axis, *self.reduce_axis)

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The tensors of the regions, then those that the indices and scalars load."""
        found = dict.fromkeys(r.tensor for r in self.call.regions)
        found.update(dict.fromkeys(load.producer for load in self.loads()))
        return tuple(found)

    def loads(self) -> list[ProducerLoad]:
        """The loads of single elements in the scalars and in the indices of the regions."""
        ends = (e for r in self.call.regions for i in r.ranges for e in (i.min, i.extent))
        return [load for e in (*self.call.scalars, *ends) for load in tensor_loads(e)]

    def replace(self, table: Mapping[Tensor, Tensor]) -> TensorComputeOp:
        """This operation reading `table[t]` wherever it reads `t`, with new outputs."""
        load = reading(table)
        call = self.call.map(lambda e: rewrite_expr(e, load), table)
        return TensorComputeOp(self.name, self.axis, self.shape, call, self.tag, self.attrs)


def call_intrin(
    intrin: TensorIntrin,
    args: Sequence[object],
    reduce_axis: IterVar | Sequence[IterVar] = (),
) -> IntrinCall:
    """The call of `intrin` on `args`: regions (`A[i, 0:8]`) or whole tensors, and scalars.

    Raises ValueError for arguments whose number, types or shapes are not the intrinsic's, and for
    a `reduce_axis` that it cannot accumulate over.
    """
    where = f"intrinsic {intrin.name}"
    axes = (reduce_axis,) if isinstance(reduce_axis, IterVar) else tuple(reduce_axis)
    regions: list[TensorRegion] = []
    scalars: list[Expr] = []
    for arg in args:
        if isinstance(arg, TensorRegion | Tensor):
            whole = (slice(None),)
            regions.append(arg if isinstance(arg, TensorRegion) else arg.region(whole * arg.ndim))
        elif isinstance(arg, Expr | int | float):
            position = len(scalars)
            if position < len(intrin.scalar_params) and not isinstance(arg, Expr):
                arg = _constant(where, arg, intrin.scalar_params[position])
            scalars.append(as_expr(arg))
        else:
            raise ValueError(
                f"{where}: expected regions of tensors such as A[i, 0:8] and scalars, found {arg!r}"
            )
    _check_count(where, "regions of tensors", len(regions), [t.name for t in intrin.inputs])
    _check_count(where, "scalars", len(scalars), [v.name for v in intrin.scalar_params])
    for value, param in zip(scalars, intrin.scalar_params, strict=True):
        if value.dtype is not param.dtype:
            raise ValueError(
                f"{where}: scalar {param.name} is {param.dtype}, found {value!r} of type "
                f"{value.dtype}; convert it (.astype)"
            )
    sizes: dict[Var, Expr] = {}
    for region, declared in zip(regions, intrin.inputs, strict=True):
        _check_region(where, region, declared, sizes)
    for iv in axes:
        if not isinstance(iv, IterVar) or iv.kind != IterKind.REDUCE:
            raise ValueError(f"{where}: reduce_axis: expected te.reduce_axis, found {iv!r}")
    if axes and intrin.reduce_update is None:
        raise ValueError(
            f"{where}: it cannot go on with a reduction over {axes[0].var.name}, because it has no "
            "reduce_update; declare it with (body, reduce_init, reduce_update)"
        )
    return IntrinCall(intrin, tuple(regions), tuple(scalars), axes)


def _constant(where: str, value: int | float, param: Var) -> Expr:
    try:
        return const(value, param.dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(
            f"{where}: scalar {param.name} is {param.dtype}, found {value}: {error}"
        ) from error


def _check_count(where: str, what: str, found: int, names: Sequence[str]) -> None:
    if found != len(names):
        raise ValueError(
            f"{where}: expected {len(names)} {what} ({', '.join(names) or 'none'}), found {found}"
        )


def _check_region(
    where: str, region: TensorRegion, declared: Tensor, sizes: dict[Var, Expr]
) -> None:
    if region.tensor.dtype is not declared.dtype:
        raise ValueError(
            f"{where}: input {declared.name} is {declared.dtype}, found {region!r} of type "
            f"{region.tensor.dtype}"
        )
    _check_extents(
        where, repr(region), [r.extent for r in region.ranges], declared.name, declared.shape, sizes
    )


def _check_extents(
    where: str,
    what: str,
    extents: Sequence[Expr],
    name: str,
    shape: Sequence[Expr],
    sizes: dict[Var, Expr],
) -> None:
    """ValueError unless `extents` are ones followed by `shape`.

    A variable in `shape` stands for the extent that it meets first, recorded in `sizes`.
    """
    missing = len(extents) - len(shape)
    expected = [*([IntImm(1)] * missing), *shape]
    analyzer = Analyzer()
    fits = missing >= 0
    for extent, wanted in zip(extents, expected, strict=False):
        known = sizes.setdefault(wanted, extent) if isinstance(wanted, Var) else wanted
        fits = fits and analyzer.can_prove_equal(extent, known)
    if not fits:
        raise ValueError(
            f"{where}: {name} has shape {tuple(shape)!r}, which {what} of extents "
            f"{tuple(extents)!r} does not fit; its last extents must be these and all before them 1"
        )


def tensor_compute(
    name: str,
    axis: Sequence[IterVar],
    shape: Sequence[Expr],
    call: IntrinCall,
    tag: str = "",
    attrs: Mapping[str, Any] | None = None,
) -> TensorComputeOp:
    """The operation with outputs of `shape` that runs `call` at every point of `axis`.

    Raises ValueError when the dimensions of `shape` after those of `axis` are not the shape of the
    intrinsic's outputs.
    """
    where = f"te.compute {name}: intrinsic {call.intrin.name}"
    sizes: dict[Var, Expr] = {}
    for region, declared in zip(call.regions, call.intrin.inputs, strict=True):
        _check_region(where, region, declared, sizes)
    for tensor in call.intrin.op.outputs:
        extents = list(shape[len(axis) :])
        _check_extents(where, "what is left", extents, tensor.name, tensor.shape, sizes)
    own = {iv.var for iv in (*axis, *call.reduce_axis)}
    for iv in call.reduce_axis:
        assert iv.dom is not None, "te.reduce_axis has a domain"
        if not own.isdisjoint(free_vars(iv.dom.min) | free_vars(iv.dom.extent)):
            raise ValueError(
                f"{where}: the domain of reduction axis {iv.var.name} depends on another axis"
            )
    for e in call.scalars:
        if any(isinstance(node, Reduce) for node in distinct(e)):
            raise ValueError(f"{where}: a scalar is a reduction; compute it in a tensor first")
    return TensorComputeOp(name, axis, shape, call, tag, attrs)


# TensorIntrin's __call__ needs this module, which imports it: it cannot import this one itself.
vars(tensor_intrin_module)["_calls"] = sys.modules[__name__]
