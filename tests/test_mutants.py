"""The list of benchmarks/mutants.py fits the sources, and the tool tells what does not."""

import importlib.util
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def mutants() -> Iterator[ModuleType]:
    spec = importlib.util.spec_from_file_location("mutants", ROOT / "benchmarks" / "mutants.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["mutants"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules["mutants"]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_a.py").write_text("import a\ndef test_a(): assert a.one() == 1\n")
    (tmp_path / "a.py").write_text("def one():\n    return 1\n\ndef two():\n    return 1 + 1\n")
    return tmp_path


@pytest.fixture
def good(mutants: ModuleType) -> Any:
    return mutants.Mutant("one is zero", "a.py", "return 1\n", "return 0\n", ("tests/test_a.py",))


def test_the_list_fits_the_sources(mutants: ModuleType) -> None:
    """Mend benchmarks/mutants.toml as each line says."""
    assert not mutants.problems(mutants.read_list())


def test_what_does_not_fit_is_told(mutants: ModuleType, tree: Path, good: Any) -> None:
    assert mutants.problems([good], tree) == []
    for change, words in (
        ({"old": "return 1"}, "the old text stands there 2 times, expected once"),
        ({"old": "return 7"}, "the old text stands there 0 times"),
        ({"file": "b.py"}, "there is no such file"),
        ({"tests": ("tests/test_b.py::test_b",)}, "there are no tests tests/test_b.py"),
        ({"new": "return 1\n"}, "old and new are the same"),
    ):
        (problem,) = mutants.problems([replace(good, **change)], tree)
        assert problem.startswith("one is zero: ")
        assert words in problem
    assert mutants.problems([replace(good, old="return 1", every=True)], tree) == []
    assert len(mutants.problems([good, good], tree)) == 2


def test_a_change_is_found_or_not_and_undone(mutants: ModuleType, tree: Path, good: Any) -> None:
    before = (tree / "a.py").read_text()
    other = replace(good, name="two is three", old="1 + 1", new="1 + 2", reason="nobody asks")
    killed, alive = (mutants.try_one(tree, m, k, full=False) for k, m in enumerate((good, other)))
    assert (tree / "a.py").read_text() == before
    assert (killed.killed, killed.by) == (True, "test_a.py::test_a")
    assert (alive.killed, alive.by) == (False, "")
    lines = mutants.table([killed, alive]).splitlines()
    assert [line.split()[3] for line in lines] == ["killed", "SURVIVES"]
    assert lines[1].endswith("nobody asks")


def test_tests_that_cannot_run_are_an_error(mutants: ModuleType, tree: Path, good: Any) -> None:
    with pytest.raises(RuntimeError, match="one is zero: pytest ended with status 4"):
        mutants.try_one(tree, replace(good, tests=("tests/none.py",)), 0, full=False)


def test_a_wrong_entry_is_told(mutants: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "list.toml"
    path.write_text('[[mutant]]\nname = "x"\nfile = "a.py"\nold = "1"\ntest = []\n')
    with pytest.raises(ValueError, match=r"x: missing keys \['new', 'tests'\], unknown .*'test'"):
        mutants.read_list(path)
