"""Integer expressions as sums of atoms with constant factors."""

from __future__ import annotations

from dataclasses import dataclass

from autosched.tir.expr import Add, Expr, IntImm, Mul, Sub, Var
from autosched.tir.op import add, mul, sub
from autosched.tir.walk import free_vars


@dataclass(slots=True, eq=False)
class Affine:
    """`sum(factor * atom) + constant`; atoms are variables or expressions not looked into."""

    terms: dict[Expr, int]
    constant: int

    def opaque_vars(self) -> set[Var]:
        """Variables inside atoms that are not variables themselves."""
        found: set[Var] = set()
        for atom in self.terms:
            if not isinstance(atom, Var):
                found |= free_vars(atom)
        return found

    def expr(self, like: Expr) -> Expr:
        """The sum as an expression of the type of `like`."""
        dtype = like.dtype
        total: Expr = IntImm(0, dtype)
        for atom, factor in self.terms.items():
            if factor < 0:
                total = sub(total, mul(atom, IntImm(-factor, dtype)))
            else:
                total = add(total, mul(atom, IntImm(factor, dtype)))
        return add(total, IntImm(self.constant, dtype))


def affine(e: Expr) -> Affine:
    """The scalar integer expression `e` as a sum; whatever is not linear becomes an atom."""
    form = Affine({}, 0)
    _collect(e, 1, form)
    form.terms = {atom: factor for atom, factor in form.terms.items() if factor}
    return form


def _collect(e: Expr, factor: int, form: Affine) -> None:
    kind = type(e)
    if kind is IntImm:
        assert isinstance(e, IntImm)
        form.constant += factor * e.value
    elif isinstance(e, Add | Sub):
        _collect(e.a, factor, form)
        _collect(e.b, factor if kind is Add else -factor, form)
    elif isinstance(e, Mul) and isinstance(e.b, IntImm):
        _collect(e.a, factor * e.b.value, form)
    elif isinstance(e, Mul) and isinstance(e.a, IntImm):
        _collect(e.b, factor * e.a.value, form)
    else:
        form.terms[e] = form.terms.get(e, 0) + factor
