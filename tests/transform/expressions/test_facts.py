import pytest

from autosched.tir.buffer import decl_buffer
from autosched.tir.expr import IntImm, Var
from autosched.tir.op import ge, lt
from autosched.tir.stmt import nop
from autosched.transform.expressions.facts import Facts
from kit.types import MakeFunc


@pytest.fixture
def facts(make_func: MakeFunc) -> Facts:
    return Facts(make_func(nop()))


i, j = Var("i"), Var("j")


def bind(facts: Facts, var: Var, extent: int) -> None:
    facts.bind(var, IntImm(0), IntImm(extent))


def test_bounds_of_a_loop(facts: Facts) -> None:
    bind(facts, i, 8)
    assert facts.analyzer.can_prove(lt(i, 8))
    assert not facts.analyzer.can_prove(lt(i, 7))


def test_results_survive_conditions_on_other_variables(facts: Facts) -> None:
    bind(facts, i, 8)
    bind(facts, j, 8)
    facts.memo(i + 1)[i + 1] = i

    def inside(_: None) -> None:
        assert facts.memo(i + 1) == {i + 1: i}
        assert facts.memo(j + 1) == {}
        facts.memo(j + 1)[j + 1] = j

    facts.under((lt(j, 4),), inside, None)
    assert facts.memo(j + 1) == {i + 1: i}  # what held under the condition is gone


def test_conditions_hold_only_inside(facts: Facts) -> None:
    bind(facts, i, 8)
    assert facts.under((lt(i, 4), ge(i, 2)), lambda _: facts.analyzer.can_prove(lt(i, 4)), False)
    assert not facts.analyzer.can_prove(lt(i, 4))


def test_binding_a_variable_otherwise_forgets(facts: Facts) -> None:
    bind(facts, i, 8)
    facts.memo(i)[i] = i
    bind(facts, i, 8)
    assert facts.memo(i) == {i: i}
    bind(facts, i, 9)
    assert facts.memo(i) == {}
    assert not facts.analyzer.can_prove(lt(i, 8))


def test_a_variable_bound_again_is_bounded_by_what_holds_there(facts: Facts) -> None:
    bind(facts, i, 8)

    def largest(_: None) -> int:
        facts.bind(j, IntImm(0), i + 1)
        return int(facts.analyzer.const_int_bound(j).max_value)

    assert facts.under((lt(i, 2),), largest, None) == 1
    assert facts.under((ge(i, 2),), largest, None) == 7


def test_extents_of_parameters_are_not_negative(make_func: MakeFunc) -> None:
    n = Var("n")
    facts = Facts(make_func(nop(), decl_buffer((n,), "float32", "A")))
    assert facts.analyzer.can_prove(ge(n, 0))


def test_a_variable_that_may_be_anything(facts: Facts) -> None:
    facts.define(i, j + 1)
    facts.memo(i)[i] = j + 1
    facts.define(i, None)
    assert facts.memo(i) == {}
    assert facts.analyzer.simplify(i * 2) is i * 2
    facts.memo(i)[i] = i
    bind(facts, i, 8)
    assert facts.memo(i) == {}
    facts.define(i, None)
    assert not facts.analyzer.can_prove(lt(i, 8))
