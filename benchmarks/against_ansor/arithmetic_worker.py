"""TVM's arithmetic on expressions of a table (`passes_nodes.py`); runs in the peer alone."""

from __future__ import annotations

import worker  # isort: skip  # before TVM

from contextlib import nullcontext
from typing import Any

import tvm
from passes_worker import Reader, Writer
from tvm import arith, tir


def _analyzer(reader: Reader, ranges: list[list[int]]) -> arith.Analyzer:
    analyzer = arith.Analyzer()
    for var, low, extent in ranges:
        at = reader.at(var)
        constants = (tir.IntImm(at.dtype, low), tir.IntImm(at.dtype, extent))
        analyzer.bind(at, tvm.ir.Range.from_min_extent(*constants))
    return analyzer


def _table(e: Any) -> list[Any]:
    writer = Writer()
    return [writer.row(e), writer.table]


def analyse(table: list[Any], root: int, given: int, ranges: list[list[int]]) -> Any:
    """The expression simplified, its bound and its residues, where `given` holds (-1: always)."""
    reader = Reader(table)
    analyzer, e = _analyzer(reader, ranges), reader.at(root)
    scope = nullcontext() if given < 0 else analyzer.constraint_scope(reader.at(given))
    with scope:
        simple = analyzer.simplify(e)
        if e.dtype != "bool" and "x" in e.dtype:
            return {"simple": _table(simple), "text": str(simple)}
        bound, residues = analyzer.const_int_bound(e), analyzer.modular_set(e)
    return {
        "simple": _table(simple),
        "text": str(simple),
        "bound": [bound.min_value, bound.max_value],
        "residues": [residues.coeff, residues.base],
    }


def _sets(reader: Reader, ranges: list[list[int]]) -> dict[Any, Any]:
    constants = [[tir.IntImm("int32", x) for x in (low, low + n - 1)] for _, low, n in ranges]
    return {
        reader.at(v): arith.IntervalSet(*c) for (v, _, _), c in zip(ranges, constants, strict=True)
    }


def deduce(
    table: list[Any], root: int, var: int, hint: list[list[int]], relax: list[list[int]]
) -> Any:
    """The interval of `var` for which the condition is certain; None where there is none."""
    reader = Reader(table)
    sets = _sets(reader, hint), _sets(reader, relax)
    return _ends(arith.deduce_bound(reader.at(var), reader.at(root), *sets))


def int_set(table: list[Any], root: int, ranges: list[list[int]], others: list[list[int]]) -> Any:
    """The values of an expression while variables are in their ranges, the `others` stay."""
    reader = Reader(table)
    analyzer = _analyzer(reader, others)
    return _ends(analyzer.int_set(reader.at(root), _sets(reader, ranges)))


def _ends(found: Any) -> Any:
    """Tables of both ends, None where there is none; 0 for no value at all."""
    if not isinstance(found, arith.IntervalSet) or found.is_nothing():
        return 0
    ends = (found.min_value, found.max_value)
    infinite = [isinstance(e, tir.Var) and e.dtype == "handle" for e in ends]
    return [None if no else _table(e) for e, no in zip(ends, infinite, strict=True)]


def region(kind: str, table: list[Any], box: list[list[int]], when: int, ranges: Any) -> Any:
    """The box that loops access: `kind` is lower, upper or strict."""
    reader = Reader(table)
    region = [tvm.ir.Range.from_min_extent(*reader.all(r)) for r in box]
    domain = {
        reader.at(v): tvm.ir.Range.from_min_extent(tir.IntImm("int32", low), tir.IntImm("int32", n))
        for v, low, n in ranges
    }
    function = getattr(arith, f"estimate_region_{kind}_bound")
    found = function(region, domain, reader.at(when))
    return None if found is None else [_ends(s) for s in found]


def fold(table: list[Any], op: str, operands: list[int]) -> Any:
    """What the operator makes of constants."""
    reader = Reader(table)
    arguments = reader.all(operands)
    named = {"cast": lambda x, like: x.astype(like.dtype), "div": tir.div}
    function = named.get(op) or getattr(tir, op, None) or getattr(tvm.te, op)
    return _table(function(*arguments))


if __name__ == "__main__":
    worker.serve(analyse=analyse, deduce=deduce, int_set=int_set, region=region, fold=fold)
