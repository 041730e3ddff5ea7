"""Bundling of several source files of autosched into one module that needs none of the others.

The files that may be bundled import only the standard library, NumPy and each other.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Sequence
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent


def bundle(modules: Sequence[str], docstring: str) -> str:
    """Join `modules` (such as `runtime.calling`) into one module, in this order, after all imports.

    A module must come after those it imports. Raises ValueError if one imports a module of
    autosched that does not come before it, and if two define the same name.
    """
    imports: dict[str, set[str]] = {}  # names by module; empty for a module imported as a whole
    bodies: list[str] = []
    defined: dict[str, str] = {}
    for index, module in enumerate(modules):
        source = (PACKAGE / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8")
        tree = ast.parse(source)
        lines = source.splitlines()
        for node in tree.body:
            for name in _names(node):
                if name in defined:
                    raise ValueError(f"{module} and {defined[name]} both define {name}")
                defined[name] = module
            if isinstance(node, ast.Import):
                for alias in node.names:
                    imports.setdefault(_alias(alias), set())
            elif isinstance(node, ast.ImportFrom):
                _take(node, module, modules[:index], imports)
            elif node is tree.body[0]:  # the docstring
                pass
            else:
                continue
            assert node.end_lineno is not None
            lines[node.lineno - 1 : node.end_lineno] = [""] * (node.end_lineno - node.lineno + 1)
        bodies.append(f"# {module.rpartition('.')[2]}\n\n" + "\n".join(lines).strip())
    head = f'"""{docstring}\n"""\n\nfrom __future__ import annotations\n\n'
    lines = [
        f"from {source} import {', '.join(sorted(names))}" if names else f"import {source}"
        for source, names in sorted(imports.items(), key=lambda item: (bool(item[1]), item[0]))
    ]
    return head + "\n".join(lines) + "\n\n" + "\n\n\n".join(bodies) + "\n"


def names_of(modules: Sequence[str]) -> set[str]:
    """The names that have a meaning in a bundle of these modules.

    These are the names that the modules define or import, and Python's builtins: a kernel called
    `len` would replace the builtin.
    """
    found = {name for name in dir(builtins) if not name.startswith("_")}
    for module in modules:
        source = (PACKAGE / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8")
        for node in ast.parse(source).body:
            found.update(_names(node))
            if isinstance(node, ast.Import | ast.ImportFrom):
                found.update((a.asname or a.name).split(".")[0] for a in node.names)
    return found


def _take(
    node: ast.ImportFrom, module: str, before: Sequence[str], imports: dict[str, set[str]]
) -> None:
    source = node.module or ""
    if source == "__future__":
        return
    if not source.startswith("autosched"):
        imports.setdefault(source, set()).update(map(_alias, node.names))
    elif source.removeprefix("autosched.") not in before:
        raise ValueError(f"{module} imports {source}, which does not come before it")
    elif any(alias.asname for alias in node.names):
        raise ValueError(f"{module} renames what it imports of {source}")


def _alias(alias: ast.alias) -> str:
    return f"{alias.name} as {alias.asname}" if alias.asname else alias.name


def _names(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        plain = [t.elts if isinstance(t, ast.Tuple) else [t] for t in targets]
        return [each.id for some in plain for each in some if isinstance(each, ast.Name)]
    return []
