"""Files of ours as one module without us."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from autosched.export import bundle as bundling
from autosched.export.bundle import bundle
from autosched.export.cpu import MODULES as CPU
from autosched.export.cuda import MODULES as CUDA


@pytest.mark.parametrize("modules", [CPU, CUDA], ids=["cpu", "cuda"])
def test_a_module_needs_numpy_only(modules: tuple[str, ...]) -> None:
    text = bundle(modules, "A module.")
    tree = ast.parse(text)
    assert ast.get_docstring(tree) == "A module."
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.module is not None
            found.add(node.module.split(".")[0])
    # The last one inside a function, for types of its own.
    assert found <= {*sys.stdlib_module_names, "numpy", "ml_dtypes"}


def test_what_cannot_be_bundled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundling, "PACKAGE", tmp_path)
    (tmp_path / "a.py").write_text(
        '"""A."""\n\nimport sys\n\nX = 1\n\n\ndef f() -> int:\n    return X\n'
    )
    (tmp_path / "b.py").write_text('"""B."""\n\nfrom autosched.a import X\n\nY, Z = X, 2\n')
    (tmp_path / "c.py").write_text('"""C."""\n\nX: int = 3\n')
    (tmp_path / "d.py").write_text('"""D."""\n\nfrom autosched.a import X as W\n')
    made = bundle(["a", "b"], "Both.")
    assert bundling.names_of(["a", "b"]) >= {"sys", "X", "f", "Y", "Z", "len"}
    assert not bundling.names_of(["a", "b"]) & {"W", "a", "b"}
    names: dict[str, object] = {}
    exec(compile(made, "made", "exec"), names)
    assert (names["Y"], names["Z"], names["__doc__"]) == (1, 2, "Both.\n")
    for modules, says in (
        (["b", "a"], "b imports autosched.a, which does not come before it"),
        (["a", "c"], "c and a both define X"),
        (["a", "d"], "d renames what it imports of autosched.a"),
    ):
        with pytest.raises(ValueError, match=says):
            bundle(modules, "")
