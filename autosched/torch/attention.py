"""Attention: two products with a softmax between them, in one kernel."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch

from autosched.torch.computation import Computation, NoRuleError, Operand
from autosched.torch.model_graph import SAME_ELEMENTS, arguments_of, shape_of, value_of
from autosched.torch.operands import along, read, storage_order, unless_usual

_aten = torch.ops.aten
_BATCH = ("a", "b", "c", "d")
_LEAST = "-3.4028234663852886e38"
"""The least finite float32, where a maximum over indices begins as well."""


def attention(node: Any) -> Computation:
    """`aten.scaled_dot_product_attention`: of any number of heads, with a mask or causal.

        S = Q K^T * scale + M;  E = exp(S - max(S));  Y = E V / sum(E)

    The quotients come last, so that each is of a whole row. Rows of which the mask leaves nothing
    are zeros, as PyTorch has them. Heads of the query that share those of key and value
    (`enable_gqa`) are an index of their own.
    """
    given = arguments_of(node)
    if given["dropout_p"]:
        raise NoRuleError(f"it leaves out numbers at random: dropout_p={given['dropout_p']}")
    if given["is_causal"] and given["attn_mask"] is not None:
        raise NoRuleError("it is causal and has a mask")
    query = given["query"]
    *batch, rows, inner = shape_of(query)
    key, value, groups = _shared(given, batch)
    columns, width = shape_of(key)[-2], shape_of(value)[-1]
    if len(batch) > len(_BATCH):
        raise NoRuleError(
            f"it has {len(batch)} dimensions of batches, {len(_BATCH)} at most are supported"
        )
    lengths = dict(zip(_BATCH, batch, strict=False))
    lengths |= {"i": rows, "e": inner, "j": columns, "f": width}
    lead: list[tuple[str, ...]] = [(axis,) for axis in _BATCH[: len(batch)]]
    shared = list(lead)
    if groups not in (0, 1, *batch[-1:]):
        lengths |= {"g": groups, "r": batch[-1] // groups}
        lead[-1], shared[-1] = ("g", "r"), ("g",)
    q, first = read("Q", query, [*lead, ("i",), ("e",)], lengths)
    k, second = read("K", *along(key, [*shared, ("j",), ("e",)], lengths), lengths)
    v, third = read("V", *along(value, [*shared, ("j",), ("f",)], lengths), lengths)
    outer = ", ".join(axis for several in lead for axis in several)
    at = f"{outer}, " if outer else ""
    scale = inner**-0.5 if given["scale"] is None else given["scale"]
    if not isinstance(scale, int | float) or not math.isfinite(scale):
        raise NoRuleError(f"its scale must be a constant, finite number, found {scale}")
    mask = _mask(given, [*lead, ("i",), ("j",)], lengths)
    kept = mask.kept
    s, most = f"S[{at}i, j]", f"m[{at}i]"
    total = f"t[{at}i]"
    quotient = f"({total} if {total} > 0 else 1.0)" if mask.operands else total
    order = storage_order(node)
    dimensions = [*lead, ("i",), ("f",)]
    axes = tuple(axis for d in order for axis in dimensions[d])
    return Computation(
        kind=mask.kind,
        statements=(
            f"{s} = sum(e, {q} * {k}) * {float(scale)!r}{mask.added}",
            f"{most} = max(j, {s} if {kept} else {_LEAST})" if kept else f"{most} = max(j, {s})",
            f"E[{at}i, j] = exp({s} - {most})" + (f" if {kept} else 0.0" if kept else ""),
            f"{total} = sum(j, E[{at}i, j])",
            f"A[{at}i, f] = sum(j, E[{at}i, j] * {v})",
            f"Y[{', '.join(axes)}] = A[{at}i, f] / {quotient}",
        ),
        operands={"Q": first, "K": second, "V": third, **mask.operands},
        result="Y",
        axes=axes,
        shape=tuple(lengths[axis] for axis in axes),
        rounded={"E": third.dtype},
        order=unless_usual(order),
        lengths=lengths,
    )


def _shared(given: Mapping[str, Any], batch: Sequence[int]) -> tuple[Any, Any, int]:
    """Key, value, and how many heads these have that several of the query's share; 0 for none.

    Heads that were repeated for those of the query are read before that:
    `key[:, :, None].expand(2, 4, 3, 5, 8).reshape(2, 12, 5, 8)`, `key.repeat_interleave(3, 1)`.
    """
    both = given["key"], given["value"]
    before = [_before_repeating(each) for each in both]
    if batch and all(
        once is not None and shape_of(each)[-3] == batch[-1]
        for once, each in zip(before, both, strict=True)
    ):
        heads = {shape_of(each)[-3] for each in before}
        if len(heads) == 1:
            return before[0], before[1], heads.pop()
    return *both, shape_of(both[0])[-3] if given["enable_gqa"] and batch else 0


def _before_repeating(node: Any) -> Any | None:
    """What each head of the node, the third dimension from the end, is one of several copies of;
    None for other nodes.
    """
    if node.target is _aten.repeat_interleave.self_int:
        dim, rank = arguments_of(node)["dim"], len(shape_of(node))
        return node.args[0] if dim is not None and dim % rank == rank - 3 else None
    if node.target not in SAME_ELEMENTS:
        return None
    shape, expanded = shape_of(node), node.args[0]
    while expanded.target is _aten.clone.default:
        expanded = expanded.args[0]
    once = expanded.args[0] if expanded.target is _aten.expand.default else None
    if once is None or once.target is not _aten.unsqueeze.default:
        return None
    *outer, length, width = own = shape_of(once.args[0])
    wanted = (*outer[:-1], shape_of(expanded)[-3] * (outer or [0])[-1], length, width)
    single = shape_of(once) == (*outer, 1, length, width) and shape == wanted
    return once.args[0] if single and len(own) == len(shape) else None


class _Mask(NamedTuple):
    """What a mask makes of an attention: what is added to a score, and where one is kept."""

    kind: str
    added: str = ""
    kept: str = ""
    operands: Mapping[str, Operand] = {}


def _mask(
    given: Mapping[str, Any], axes: Sequence[tuple[str, ...]], lengths: Mapping[str, int]
) -> _Mask:
    """The mask along the indices of a score; truth values are read as bytes."""
    if given["is_causal"]:
        return _Mask("causal_attention", kept="j <= i")
    if given["attn_mask"] is None:
        return _Mask("attention")
    text, operand = read("M", *along(given["attn_mask"], axes, lengths), lengths)
    if value_of(given["attn_mask"]).dtype != torch.bool:
        return _Mask("masked_attention", added=f" + {text}", operands={"M": operand})
    truth = replace(operand, type="uint8")
    return _Mask("masked_attention", kept=f"{text} != 0", operands={"M": truth})
