"""Analysis of integer expressions: bounds, residues, simplification, proofs, sets."""

from autosched.arith import intset
from autosched.arith.analyzer import Analyzer
from autosched.arith.const_int_bound import NEG_INF, POS_INF, ConstIntBound, eval_bound
from autosched.arith.deduce_bound import deduce_bound
from autosched.arith.interval_eval import eval_set
from autosched.arith.intset import IntSet, intersect_set, union_set
from autosched.arith.modular_set import ModularSet
from autosched.arith.region_bound import (
    estimate_region_lower_bound,
    estimate_region_strict_bound,
    estimate_region_upper_bound,
)

__all__ = [
    "NEG_INF",
    "POS_INF",
    "Analyzer",
    "ConstIntBound",
    "IntSet",
    "ModularSet",
    "deduce_bound",
    "estimate_region_lower_bound",
    "estimate_region_strict_bound",
    "estimate_region_upper_bound",
    "eval_bound",
    "eval_set",
    "intersect_set",
    "intset",
    "union_set",
]
