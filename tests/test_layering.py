"""Imports follow the direction of docs/architecture.md, between layers and between rooms."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent

FRONT = {"autosched", "autosched.__main__", "autosched.cli"}  # which may import all

# What each layer may import, besides itself. EVERYWHERE is below everything.
ALLOWED = {
    "autosched.errors": set(),
    "autosched.arguments": set(),
    "autosched.lost_interrupt": set(),
    "autosched.needed": set(),
    "autosched.ansor_names": set(),
    "autosched.words": set(),
    "autosched.output_file": set(),
    "autosched.cache_folder": set(),
    "autosched.kept_files": set(),
    "autosched.control_groups": set(),
    "autosched.cpu_caches": set(),
    "autosched.cpu_cores": set(),
    "autosched.cpu_features": set(),
    "autosched.cpuid": set(),
    "autosched.user_file": set(),
    "autosched.user_source": set(),
    "autosched.user_warning": set(),
    "autosched.layout": set(),
    "autosched.target": set(),
    "autosched.nest": set(),
    "autosched.process": set(),
    "autosched.tir": set(),
    "autosched.arith": {"autosched.tir"},
    "autosched.te": {"autosched.tir", "autosched.arith"},
    "autosched.workloads": {"autosched.tir", "autosched.arith", "autosched.te"},
    "autosched.state": {"autosched.tir", "autosched.arith", "autosched.te"},
    "autosched.transform": {"autosched.tir", "autosched.arith", "autosched.nest"},
    "autosched.codegen": {"autosched.tir", "autosched.arith", "autosched.transform"},
    "autosched.runtime": {
        "autosched.tir",
        "autosched.arith",
        "autosched.transform",
        "autosched.codegen",
    },
    "autosched.lowering": {"autosched.tir", "autosched.transform"},
    "autosched.task": {
        "autosched.te",
        "autosched.state",
        "autosched.workloads",
        "autosched.lowering",
    },
}
COMPILER = {*ALLOWED, "autosched.driver", "autosched.candidate"}
ALLOWED["autosched.driver"] = {
    "autosched.tir",
    "autosched.te",
    "autosched.state",
    "autosched.transform",
    "autosched.codegen",
    "autosched.runtime",
}
ALLOWED["autosched.candidate"] = {
    "autosched.tir",
    "autosched.state",
    "autosched.runtime",
    "autosched.task",
    "autosched.driver",
}
ALLOWED["autosched.features"] = COMPILER
ALLOWED["autosched.measure"] = COMPILER
ALLOWED["autosched.referee"] = COMPILER | {"autosched.measure"}
ALLOWED["autosched.export"] = COMPILER
ALLOWED["autosched.search"] = COMPILER | {"autosched.features", "autosched.measure"}
ALLOWED["autosched.display"] = ALLOWED["autosched.search"] | {"autosched.search"}
ALLOWED["autosched.session"] = ALLOWED["autosched.search"] | {
    "autosched.display",
    "autosched.search",
    "autosched.export",
    "autosched.referee",
}
ALLOWED["autosched.arena"] = ALLOWED["autosched.search"] | {"autosched.search"}
ALLOWED["autosched.torch"] = COMPILER | {"autosched.measure", "autosched.session"}
ALLOWED["autosched.records"] = {
    "autosched.display",
    "autosched.measure",
    "autosched.session",
    "autosched.task",
}
ALLOWED["autosched.report"] = ALLOWED["autosched.session"] | {"autosched.session"}
EVERYWHERE = {
    "autosched.errors",
    "autosched.arguments",
    "autosched.lost_interrupt",
    "autosched.needed",
    "autosched.words",
    "autosched.output_file",
    "autosched.cache_folder",
    "autosched.kept_files",
    "autosched.control_groups",
    "autosched.cpu_caches",
    "autosched.cpu_cores",
    "autosched.cpu_features",
    "autosched.cpuid",
    "autosched.layout",
    "autosched.target",
    "autosched.user_file",
    "autosched.user_source",
    "autosched.user_warning",
}

# What each room of a folder may import, besides itself: rooms and single files of the folder.
ROOMS = {
    "autosched.te": {
        "operations": set(),
        "intrin": {"operations"},
        "relations": set(),
        "bounds": {"operations", "relations"},
        "schedule": {"operations", "relations", "bounds", "intrin"},
        "lowering": {"operations", "relations", "bounds", "intrin", "schedule"},
        "hybrid": {"operations"},
    },
    "autosched.transform": {
        "framework": set(),
        "expressions": {"framework"},
        "from_te": {"framework", "expressions"},
        "blocks": {"framework", "expressions"},
        "low_precision": {"framework", "expressions"},
        "storage": {"framework", "expressions"},
        "vector": {"framework", "expressions", "storage", "loops"},
        "dataflow": {"expressions"},
        "loops": {"framework", "expressions", "storage", "dataflow"},
        "device": {"framework", "expressions", "storage", "loops"},
        "cpu_loops": {"framework", "storage", "loops"},
        "host": {"framework", "expressions"},
        "pipeline": {
            *("framework", "expressions", "from_te", "low_precision", "storage", "vector"),
            *("blocks", "loops", "device", "dataflow", "host", "cpu_loops"),
        },
    },
    "autosched.features": {
        "walk": set(),
        "ansor": {"walk"},
        "autosched_1": {"walk", "ansor"},
        "sets": {"walk", "ansor", "autosched_1"},
        "compare": {"ansor"},
        "lowering": {"ansor", "sets"},
        "batched": {"walk", "ansor", "autosched_1", "sets", "lowering"},
        "datasets": {"ansor", "sets"},
    },
}

# Imports inside functions, and why each is not at the top of its file.
START_UP = "a command loads only what it needs"
NATIVE = "takes 90 ms, which whoever only lowers or extracts features is spared"
PIPELINES = "takes 60 ms, which whoever only extracts features is spared"
HEAVY = "takes half a second to two, and most commands do without"
OPTIONAL = "may be missing"
BROKEN = "doctor names what cannot be imported and tries the rest"
INSIDE_FUNCTIONS = {
    ("autosched.cli.doctor_process", "autosched.measure.bandwidth"): BROKEN,
    ("autosched.cli.doctor_process", "autosched.measure.build"): BROKEN,
    ("autosched.cli.doctor_process", "autosched.measure.peak"): BROKEN,
    ("autosched.cli.doctor_process", "autosched.search.cost_model"): BROKEN,
    ("autosched.cli.doctor_process", "autosched.target"): BROKEN,
    ("autosched.cli.doctor_process", "numpy"): BROKEN,
    ("autosched.cli", "autosched.cli.interrupt"): "Ctrl-C is dealt with before anything loads",
    ("autosched.cli", "autosched.cli.app"): "Ctrl-C is dealt with before anything loads",
    ("autosched.cli.candidates_app", "autosched.arena"): START_UP,
    ("autosched.cli.candidates_app", "autosched.cli.arena"): START_UP,
    ("autosched.cli.tuning_app", "autosched.cli.ahead"): START_UP,
    ("autosched.cli.tuning_app", "autosched.cli.asked"): START_UP,
    ("autosched.cli.candidates_app", "autosched.cli.build"): START_UP,
    ("autosched.cli.complete", "autosched.workloads"): START_UP,
    ("autosched.cli.candidates_app", "autosched.session.export"): START_UP,
    ("autosched.cli.cache_app", "autosched.cli.cache"): START_UP,
    ("autosched.cli.dataset_app", "autosched.cli.dataset"): START_UP,
    ("autosched.cli.app", "autosched.cli.doctor"): START_UP,
    ("autosched.cli.candidates_app", "autosched.cli.failures"): START_UP,
    ("autosched.cli.tune", "autosched.cli.dry_run"): START_UP,
    ("autosched.cli.tuning_app", "autosched.cli.lower"): START_UP,
    ("autosched.cli.records_app", "autosched.cli.records"): START_UP,
    ("autosched.cli.records_app", "autosched.cli.records_compared"): START_UP,
    ("autosched.cli.records_app", "autosched.cli.records_shown"): START_UP,
    ("autosched.cli.candidates_app", "autosched.cli.replay"): START_UP,
    ("autosched.cli.candidates_app", "autosched.cli.report"): START_UP,
    ("autosched.cli.app", "autosched.cli.schema"): START_UP,
    ("autosched.cli.candidates_app", "autosched.cli.show"): START_UP,
    ("autosched.cli.tuning_app", "autosched.cli.tune"): START_UP,
    ("autosched.cli.tuning_app", "autosched.cli.tune_settings"): START_UP,
    ("autosched.measure.environment", "importlib.metadata"): START_UP,
    ("autosched.cli.named", "autosched.cli.read_config"): START_UP,
    ("autosched.cli.app", "autosched.cli.workloads"): START_UP,
    ("autosched.driver", "autosched.transform.device.shared_to_dynamic"): PIPELINES,
    ("autosched.driver", "autosched.transform.device.verify_gpu_code"): PIPELINES,
    ("autosched.driver", "autosched.transform.pipeline"): PIPELINES,
    ("autosched.lowering", "autosched.transform.pipeline"): PIPELINES,
    ("autosched.measure.build", "autosched.runtime.cpu"): NATIVE,
    ("autosched.measure.build", "autosched.transform.pipeline"): PIPELINES,
    ("autosched.measure.flush", "autosched.codegen.llvm_compile"): NATIVE,
    ("autosched.driver", "autosched.runtime.cpu"): NATIVE,
    ("autosched.runtime.compiled_loops", "autosched.codegen.llvm"): NATIVE,
    ("autosched.runtime.compiled_loops", "autosched.codegen.llvm_compile"): NATIVE,
    ("autosched.runtime.compiled_loops", "autosched.runtime.loops_as_tir"): NATIVE,
    ("autosched.runtime.compiled_loops", "autosched.runtime.native"): NATIVE,
    ("autosched.runtime.loop_cache", "llvmlite"): NATIVE,
    ("autosched.driver", "autosched.runtime.cuda_artifact"): NATIVE,
    ("autosched.driver", "autosched.runtime.host"): NATIVE,
    ("autosched.measure.cluster.connect", "autosched.measure.cluster.ray_link"): OPTIONAL,
    ("autosched.runtime.array_checks", "ml_dtypes"): "exported modules need NumPy only",
    ("autosched.cpu_features", "llvmlite.binding"): NATIVE,
    ("autosched.target", "llvmlite.binding"): NATIVE,
    ("autosched.display.notebook", "IPython.display"): "a notebook has imported it already",
}


class Import(NamedTuple):
    name: str
    line: int
    in_function: bool


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def sources() -> Iterator[Path]:
    for folder, _, names in os.walk(ROOT / "autosched", followlinks=True):
        yield from sorted(Path(folder) / name for name in names if name.endswith(".py"))


SOURCES = {module_of(path): path for path in sources()}


def is_type_checking(node: ast.AST) -> bool:
    test = node.test if isinstance(node, ast.If) else None
    return isinstance(test, ast.Name) and test.id == "TYPE_CHECKING"


def imports(tree: ast.AST, in_function: bool = False) -> Iterator[Import]:
    """What the file imports anywhere, except for type checking alone; of ours, the modules."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.expr) or is_type_checking(child):
            continue
        if isinstance(child, ast.Import):
            for alias in child.names:
                yield Import(alias.name, child.lineno, in_function)
        elif isinstance(child, ast.ImportFrom):
            for alias in child.names:
                inner = f"{child.module}.{alias.name}"
                name = inner if inner in SOURCES or child.module == "autosched" else child.module
                assert name is not None
                yield Import(name, child.lineno, in_function)
        else:
            inside = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
            yield from imports(child, in_function or inside)


@cache
def imports_of(module: str) -> list[Import]:
    """Not worked out where tests are only collected."""
    return list(imports(ast.parse(SOURCES[module].read_text())))


def layer(module: str) -> str:
    return ".".join(module.split(".")[:2])


def room(module: str, folder: str) -> str | None:
    """The room or file of `folder` that `module` belongs to; None for the folder itself."""
    inside = module.removeprefix(folder + ".")
    return None if inside == module else inside.split(".")[0]


@pytest.mark.parametrize("own", sorted({layer(module) for module in SOURCES} - FRONT))
def test_imports_point_inwards(own: str) -> None:
    assert own in ALLOWED, f"{own} is a layer that docs/architecture.md does not know"
    allowed = ALLOWED[own] | EVERYWHERE | {own}
    for module in (module for module in SOURCES if layer(module) == own):
        for found in imports_of(module):
            name = found.name
            assert name.split(".")[0] not in ("features", "measure", "search"), f"{module}: {name}"
            if name.split(".")[0] == "autosched":
                assert layer(name) in allowed, f"{module} imports {name}, line {found.line}"


@pytest.mark.parametrize("folder", ROOMS)
def test_rooms_know_only_what_lies_below_them(folder: str) -> None:
    for module in (module for module in SOURCES if layer(module) == folder):
        own = room(module, folder)
        if own is None:  # the folder's public names
            continue
        where = f"{folder}.{own} is a room that docs/architecture.md does not know"
        assert own in ROOMS[folder], where
        for found in imports_of(module):
            other = room(found.name, folder)
            if other not in (None, own):
                allowed = ROOMS[folder][own]
                assert other in allowed, f"{module} imports {found.name}, line {found.line}"


@pytest.mark.parametrize("rules", [ALLOWED, *ROOMS.values()], ids=["layers", *ROOMS])
def test_the_rules_have_an_order(rules: Mapping[str, set[str]]) -> None:
    order = list(TopologicalSorter(rules).static_order())
    assert set(order) >= set(rules)


@pytest.mark.parametrize("folder", ROOMS)
def test_the_documentation_says_the_same_of_the_rooms(folder: str) -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    table = text.split(f"| room of `{folder.removeprefix('autosched.')}` |")[1].split("\n\n")[0]
    found: dict[str, set[str]] = {}
    above: set[str] = set()
    for line in table.splitlines()[2:]:
        place, _, imports = (cell.strip() for cell in line.strip("|").split("|"))
        name = Path(place.strip("`")).stem
        named = {word for word in imports.split(", ") if word}
        found[name] = above.copy() if imports == "all above" else named
        above.add(name)
    assert found == ROOMS[folder]


def test_an_import_inside_a_function_has_a_reason() -> None:
    for module in SOURCES:
        for found in imports_of(module):
            if found.in_function:
                known = (module, found.name) in INSIDE_FUNCTIONS
                assert known, f"{module} imports {found.name}, line {found.line}"


def loaded_with(module: str) -> set[str]:
    """Our modules that are loaded when `module` is."""
    seen, todo = set[str](), [module]
    while todo:
        name = todo.pop()
        if name in SOURCES and name not in seen:
            seen.add(name)
            todo += [found.name for found in imports_of(name) if not found.in_function]
            todo.append(name.rpartition(".")[0])
    assert len(seen) > 50
    return seen


@pytest.mark.parametrize("module", ["autosched.cli.records"])
def test_what_reads_records_does_not_load_what_measures(module: str) -> None:
    """It costs a quarter of a second; `records info` of 50,000 records takes less than one."""
    heavy = {"autosched.measure.measurer", "autosched.cli.config", "autosched.transform.pipeline"}
    assert sorted(loaded_with(module) & heavy) == []


def test_what_tunes_does_not_load_what_its_processes_do() -> None:
    """Passes and code generation are the builders', and their loading costs a tenth of a second."""
    heavy = {"autosched.transform.pipeline", "autosched.codegen.llvm", "autosched.runtime.cpu"}
    assert sorted(loaded_with("autosched.cli.tune") & heavy) == []
    assert heavy <= loaded_with("autosched.measure.run") | loaded_with("autosched.cli.lower")


def test_only_the_link_to_ray_imports_it() -> None:
    found = {m for m in SOURCES for i in imports_of(m) if i.name.split(".")[0] == "ray"}
    assert found == {"autosched.measure.cluster.ray_link"}


def test_reasons_are_of_imports_that_exist() -> None:
    inside = {(m, found.name) for m in SOURCES for found in imports_of(m) if found.in_function}
    assert set(INSIDE_FUNCTIONS) <= inside


def test_no_import_inside_a_function_closes_a_circle() -> None:
    graph = {
        module: {found.name for found in imports_of(module) if found.name in SOURCES}
        for module in SOURCES
    }
    circle: list[str] = []
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        circle = error.args[1]
    assert not circle, " <- ".join(circle)
