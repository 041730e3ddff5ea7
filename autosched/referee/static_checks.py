"""Proofs about kernels without running them, for all blocks and whatever the size of their data.

Each proof answers one question about one kernel. What is not proved need not be wrong. It is left
to the run, which then covers all blocks of a smaller problem instead of some of the real one.
"""

from __future__ import annotations

from dataclasses import dataclass

from autosched.errors import ScheduleError
from autosched.referee.block_stores import unproved_stores
from autosched.referee.copy_protocol import copies, early_reads
from autosched.referee.uniform_barriers import uneven_barriers
from autosched.tir.function import PrimFunc
from autosched.tir.printer import to_text
from autosched.tir.stmt import AttrStmt, Stmt
from autosched.transform.device.thread_sync import kernels, missing_barriers

_SCOPES = ("shared", "shared.dyn")


@dataclass(frozen=True, slots=True)
class Proof:
    """The answer to one question about a kernel; kernels are numbered from 1.

    `trouble` is empty if the answer is proved; otherwise it says what was not proved, and `stmt` is
    the statement concerned.
    """

    kernel: int
    question: str
    trouble: str = ""
    stmt: Stmt | None = None

    def __str__(self) -> str:
        text = f"kernel {self.kernel}: {self.question}: {self.trouble or 'proved'}"
        if self.stmt is not None:
            text += f", at `{to_text(self.stmt).strip().partition(chr(10))[0]}`"
        return text


BARRIERS = "no barrier is missing"
UNIFORM = "all threads come to each barrier"
BLOCKS = "blocks leave each other's memory alone"
COPIES = "asynchronous copies are waited for"


def prove(func: PrimFunc) -> tuple[Proof, ...]:
    """The proofs for a final function, kernel by kernel."""
    found: list[Proof] = []
    for number, kernel in enumerate(kernels(func.body), 1):
        found += [
            _barriers(number, kernel, func.name),
            _first(number, UNIFORM, uneven_barriers(kernel), "not proved"),
        ]
        stores = unproved_stores(kernel)
        why = f"not proved: {stores[0].why}" if stores else ""
        found.append(Proof(number, BLOCKS, why, stores[0].stmt if stores else None))
        if copies(kernel):
            found.append(_first(number, COPIES, early_reads(kernel), "not proved"))
    return tuple(found)


def _barriers(number: int, kernel: AttrStmt, function: str) -> Proof:
    try:
        missing = [s for scope in _SCOPES for s in missing_barriers(kernel, scope, function)]
    except ScheduleError as error:
        return Proof(number, BARRIERS, f"not proved: {error}")
    return _first(number, BARRIERS, missing, "one may be needed")


def _first(number: int, question: str, stmts: list[Stmt], trouble: str) -> Proof:
    return Proof(number, question, trouble, stmts[0]) if stmts else Proof(number, question)
