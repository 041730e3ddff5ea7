"""Which nodes can measure for a target, and what is said of those that cannot."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from autosched.errors import ConfigError
from autosched.measure.cluster.facts import NodeFacts, measuring, misfit, version_problem
from autosched.target import Target, cpu_target
from kit.fake_cluster import node_facts

TARGET = replace(cpu_target(1), threads=2, caches=(1 << 15, 1 << 20, 1 << 25))
CODE = {name: getattr(TARGET, name) for name in ("triple", "cpu", "features")}
X86 = "x86_64-unknown-linux-gnu"
FACTS = node_facts(threads=2, caches=TARGET.caches)


@pytest.mark.parametrize(
    ("facts", "target", "why"),
    [
        (FACTS, TARGET, ""),
        (FACTS, replace(TARGET, caches=()), ""),
        (
            replace(FACTS, code={**CODE, "cpu": "another"}),
            TARGET,
            f"another ({TARGET.triple}), expected {TARGET.cpu} ({TARGET.triple})",
        ),
        (
            replace(FACTS, code={**CODE, "features": "+avx,-sse4a"}),
            replace(TARGET, features="+avx,+avx512f"),
            f"{TARGET.cpu} with other features: it lacks avx512f",
        ),
        (
            replace(FACTS, code={**CODE, "features": "+a,+b,+c,+d,+e"}),
            replace(TARGET, features="+a"),
            f"{TARGET.cpu} with other features: it has b, c, d and 1 more beside",
        ),
        (
            replace(FACTS, code={**CODE, "features": "+a,+b"}),
            replace(TARGET, cpu="plain", features="+a", chosen_cpu=True),
            "",
        ),
        (
            replace(FACTS, code={**CODE, "triple": X86, "features": "+fma"}),
            replace(TARGET, cpu="x", triple=X86, features="+avx2,+pku", chosen_cpu=True),
            f"{TARGET.cpu} with other features: it lacks avx2",
        ),
        (  # pku no compiler uses by itself
            replace(FACTS, code={**CODE, "triple": X86, "features": "+avx2"}),
            replace(TARGET, cpu="x", triple=X86, features="+avx2,+pku", chosen_cpu=True),
            "",
        ),
        (
            replace(FACTS, caches=(1 << 15, 1 << 20, 1 << 24)),
            TARGET,
            "caches of 32 KiB, 1024 KiB, 16384 KiB, expected 32 KiB, 1024 KiB, 32768 KiB",
        ),
        (FACTS, replace(TARGET, threads=4), "2 hardware threads, expected at least 4"),
    ],
)
def test_a_node_must_be_what_the_task_was_made_for(
    facts: NodeFacts, target: Target, why: str
) -> None:
    assert misfit(facts, target) == why


def of_model(model: str, **changes: Any) -> NodeFacts:
    return replace(FACTS, environment={**FACTS.environment, "cpu": model}, **changes)


@pytest.mark.parametrize(
    ("here", "fit"), [("EPYC 2", ["a", "d"]), ("EPYC 1", ["b"]), ("Xeon", ["a", "d"])]
)
def test_all_that_measure_have_one_cpu_model(here: str, fit: list[str]) -> None:
    nodes = {"a": of_model("EPYC 2"), "b": of_model("EPYC 1"), "d": of_model("EPYC 2")}
    nodes["c"] = of_model("EPYC 2", threads=1)
    found, why = measuring(nodes, [TARGET], here)
    assert found == fit
    assert set(why) == set(nodes) - set(fit)
    assert why["c"] == "1 hardware thread, expected at least 2"


def test_without_a_fitting_node_the_error_says_what_was_found_and_expected() -> None:
    nodes = {"a": of_model("EPYC", threads=1), "b": replace(FACTS, caches=(1, 2, 3))}
    with pytest.raises(ConfigError) as raised:
        measuring(nodes, [TARGET], "EPYC")
    text = str(raised.value)
    assert f"no node of the cluster fits {TARGET}: a: 1 hardware thread, expected" in text
    assert "; b: caches of " in text
    assert "run autosched on a machine of the nodes' kind" in text


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({}, ""),
        ({"source": "0"}, "a: autosched 0.1 with other source files than here"),
        ({"source": "0", "numpy": "1"}, "a: numpy 1, here 2"),
        ({"autosched": "0.2", "numpy": "1"}, "a: autosched 0.2, here 0.1; numpy 1, here 2"),
    ],
)
def test_versions_that_differ_are_named(change: dict[str, str], text: str) -> None:
    expected = {"autosched": "0.1", "numpy": "2", "source": "ab"}
    assert version_problem("a", {**expected, **change}, expected) == text


def test_facts_come_back_from_json() -> None:
    assert NodeFacts.from_json(FACTS.to_json()) == FACTS
    assert set(FACTS.versions) == {"source", "python", "autosched", "numpy", "llvmlite"}
