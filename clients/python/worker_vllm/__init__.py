"""A client for stored jobs: over HTTP, and many at a time over one WebSocket."""

from ._client import JobClient
from ._connection import JobConnection
from ._types import JobEnd, JobState, JobView, LedgerStep, NewJob, QueueError, is_settled

__all__ = [
    "JobClient",
    "JobConnection",
    "JobEnd",
    "JobState",
    "JobView",
    "LedgerStep",
    "NewJob",
    "QueueError",
    "is_settled",
]
