"""Jobs as the queue takes and tells them. Keys are those of its JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypedDict

JobState = Literal["pending", "leased", "succeeded", "failed", "cancelled", "expired"]


def is_settled(state: JobState) -> bool:
    """Whether a job in this state is over."""
    return state not in ("pending", "leased")


class _NewJob(TypedDict):
    job_type: str
    """Kind of work, such as ``chat_completion``."""
    payload: dict[str, Any]


class NewJob(_NewJob, total=False):
    """A job to be stored."""

    id: str | None
    """The same id and payload answers the same job. Without one the client makes one up."""
    config_id: str
    """Which pool may take it; left out, the payload's model or the only pool there is decides."""
    priority: int
    """-1000 to 1000; higher goes first."""
    max_attempts: int
    deadline_seconds: float
    """Counted from acceptance; a job that is not settled by then is ``expired``."""
    stream: bool
    """Its answer can be read while it is made, at ``/api/jobs/{id}/stream``. Of an ``engine_request`` only."""
    webhook: str
    """Where its settlement is posted, at a host that the queue allows."""


class JobView(TypedDict):
    """A job as it stands. Times are ISO strings of the queue's clock."""

    id: str
    job_type: str
    config_id: str
    state: JobState
    priority: int
    attempts: int
    """Made so far, the one that runs or ended the job included; one that was given back uncharged does not count."""
    max_attempts: int
    stream: bool
    fence_token: int
    worker_id: str | None
    progress: float | None
    """0 to 1, as its worker said last."""
    status_message: str | None
    created_at: str
    deadline_at: str | None
    leased_at: str | None
    started_at: str | None
    first_token_at: str | None
    settled_at: str | None
    tenant: str | None
    trace_id: str | None
    result: Any
    error: dict[str, Any] | None
    """With ``message`` and ``code``."""
    attempt_errors: list[dict[str, Any]]


class LedgerStep(TypedDict):
    """One step of a job's ledger."""

    at: str
    """ISO time."""
    step: str
    attempt: int
    fence_token: int
    worker_id: str | None
    detail: str | None


class QueueError(Exception):
    """The queue did not do what it was asked to. What led to it is its ``__cause__``."""

    message: str
    status: int | None
    """HTTP status; None: no answer came."""
    code: str | None
    """The queue's code of the error, such as ``queue_full``; None where it gave none."""

    def __init__(self, message: str, status: int | None, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.code = code


@dataclass(frozen=True)
class JobEnd:
    """How one of many jobs ended: with ``job``, or with ``error`` where the queue did not take it or has forgotten it."""

    id: str
    job: JobView | None = None
    error: QueueError | None = None
