"""Sessions with nothing built or run."""

from typing import Any

import pytest

from autosched.search.options import SearchOptions
from autosched.session import session
from autosched.task import Task
from kit.helper import StubHelper, remember_features, train_briefly
from kit.measurer import StubMeasurer
from kit.types import UseMeasurer

SEARCH = SearchOptions(
    sample_init_min_population=6,
    evolutionary_search_population=4,
    evolutionary_search_num_iters=1,
)


@pytest.fixture
def measurer(monkeypatch: pytest.MonkeyPatch) -> UseMeasurer:
    """(**settings) -> the stand-in that sessions of this test measure with."""
    remember_features(monkeypatch)
    train_briefly(monkeypatch)
    made: list[tuple[StubMeasurer, dict[str, Any]]] = []

    def use(
        kind: type[StubMeasurer] = StubMeasurer, **settings: Any
    ) -> list[tuple[StubMeasurer, dict[str, Any]]]:
        class Kept(StubMeasurer):
            def create(self, **options: Any) -> StubMeasurer:
                made.append((kind(**settings).create(), options))
                return made[-1][0]

        monkeypatch.setattr(session, "Measurer", Kept())
        monkeypatch.setattr(session, "Helper", StubHelper)
        return made

    use()
    return use


@pytest.fixture
def search() -> SearchOptions:
    """Options of a small search."""
    return SEARCH


@pytest.fixture
def tasks() -> list[Task]:
    """Two small tasks."""
    return [Task.from_workload("matmul", M=8, N=8, K=k) for k in (8, 16)]


@pytest.fixture
def task(tasks: list[Task]) -> Task:
    return tasks[0]
