"""A digest of the source of a function or class in a user's Python file; the file is not run."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from pathlib import Path

from autosched.errors import ConfigError


def parsed_source(path: Path) -> ast.Module:
    """The statements of a Python file; none when it cannot be read or is not valid Python."""
    try:
        return ast.parse(path.read_bytes())
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
        return ast.Module([], [])


def source_digest(spec: str) -> str:
    """16 hex digits of the source of `spec` (file.py:name) and of all in its file that it uses.

    Comments and the rest of the file do not count, nor do other files that it imports. Empty when
    the file cannot be read or does not define the name.
    """
    path, _, name = spec.rpartition(":")
    tree = parsed_source(Path(path))
    bound: dict[str, list[ast.stmt]] = {}
    for stmt in tree.body:
        for each in _binds(stmt):
            bound.setdefault(each, []).append(stmt)
    if name not in bound:
        return ""
    used: dict[ast.stmt, None] = {}
    names = [name]
    while names:
        for stmt in bound.pop(names.pop(), ()):
            if stmt not in used:
                used[stmt] = None
                names += [node.id for node in ast.walk(stmt) if isinstance(node, ast.Name)]
    text = "\n".join(ast.unparse(stmt) for stmt in tree.body if stmt in used)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def require_source(key: str, spec: str, recorded: str, kind: str = "function") -> None:
    """Raise ConfigError, beginning with `key`, unless the digest of `spec` is the `recorded` one.

    An empty `recorded` accepts everything. `kind` is the word for the object in the message.
    """
    if recorded and source_digest(spec) != recorded:
        raise ConfigError(
            f"{key}: {spec} is not the {kind} that was recorded; restore it, or tune again"
        )


def _binds(stmt: ast.stmt) -> Iterator[str]:
    """The names that a statement at module level binds."""
    match stmt:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            yield from (alias.asname or alias.name.partition(".")[0] for alias in names)
        case _:
            for node in ast.walk(stmt):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    yield node.id
                elif node is not stmt and isinstance(node, ast.stmt):
                    yield from _binds(node)
