"""Imports follow the direction that docs/architecture.md gives."""

import ast
import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# What each layer may import, besides itself. EVERYWHERE is below everything.
ALLOWED = {
    "autosched.errors": set(),
    "autosched.arguments": set(),
    "autosched.lost_interrupt": set(),
    "autosched.words": set(),
    "autosched.cpu_caches": set(),
    "autosched.user_file": set(),
    "autosched.layout": set(),
    "autosched.target": set(),
    "autosched.nest": set(),
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
    "autosched.task": {"autosched.te", "autosched.state", "autosched.workloads"},
}
COMPILER = {*ALLOWED, "autosched.driver"}
ALLOWED["autosched.driver"] = {
    "autosched.tir",
    "autosched.te",
    "autosched.state",
    "autosched.transform",
    "autosched.codegen",
    "autosched.runtime",
}
ALLOWED["autosched.features"] = COMPILER
ALLOWED["autosched.measure"] = COMPILER
ALLOWED["autosched.search"] = COMPILER | {"autosched.features", "autosched.measure"}
ALLOWED["autosched.session"] = ALLOWED["autosched.search"] | {"autosched.search"}
EVERYWHERE = {
    "autosched.errors",
    "autosched.arguments",
    "autosched.lost_interrupt",
    "autosched.words",
    "autosched.cpu_caches",
    "autosched.layout",
    "autosched.target",
    "autosched.user_file",
}


def layer(module: str) -> str:
    parts = module.split(".")
    return ".".join(parts[:2]) if parts[0] == "autosched" and len(parts) > 1 else parts[0]


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def imports(tree: ast.AST):
    """Modules imported anywhere in the file, except for type checking alone."""
    for child in ast.iter_child_nodes(tree):
        if is_type_checking(child):
            continue
        if isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names)
        elif isinstance(child, ast.ImportFrom) and child.module:
            if child.module == "autosched":
                yield from (f"autosched.{alias.name}" for alias in child.names)
            else:
                yield child.module
        else:
            yield from imports(child)


def sources():
    for folder, _, names in os.walk(ROOT / "autosched", followlinks=True):
        yield from sorted(Path(folder) / name for name in names if name.endswith(".py"))


@pytest.mark.parametrize("path", list(sources()), ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_point_inwards(path):
    module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    own = layer(module.removesuffix(".__init__"))
    if own in ("autosched.cli", "autosched.__main__", "autosched"):
        return
    assert own in ALLOWED, f"{own} is a layer that docs/architecture.md does not know"
    for name in imports(ast.parse(path.read_text())):
        assert name.split(".")[0] not in ("features", "measure", "search"), f"{module}: {name}"
        if name.split(".")[0] != "autosched":
            continue
        target = layer(name)
        assert target in ALLOWED[own] | EVERYWHERE | {own}, f"{module} imports {name}"
