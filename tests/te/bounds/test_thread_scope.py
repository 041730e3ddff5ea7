import pytest

from autosched.te.bounds.thread_scope import (
    inferred_storage_rank,
    is_virtual_thread,
    scope_name,
    storage_rank,
    thread_rank,
)


@pytest.mark.parametrize(
    ("tags", "scope"),
    [
        ((), "global"),
        (("",), "global"),
        (("blockIdx.x",), "shared"),
        (("blockIdx.x", "threadIdx.y"), "local"),
        (("vthread", "blockIdx.x"), "local"),
    ],
)
def test_scope_from_the_threads_around(tags: tuple[str, ...], scope: str) -> None:
    assert scope_name(inferred_storage_rank(tags)) == scope


def test_shared_memory_is_private_to_blocks_only() -> None:
    assert storage_rank("shared") > thread_rank("blockIdx.x")
    assert storage_rank("shared") <= thread_rank("threadIdx.x")
    assert storage_rank("local") > thread_rank("threadIdx.x")


def test_virtual_threads() -> None:
    assert is_virtual_thread("vthread") and is_virtual_thread("cthread")
    assert not is_virtual_thread("threadIdx.x")
