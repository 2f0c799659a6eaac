from __future__ import annotations

import asyncio
import errno
import json
import math
import time
from types import TracebackType
from typing import Any, cast
from urllib.parse import quote

import aiohttp
from yarl import URL

from ._ids import new_job_id
from ._types import JobView, LedgerStep, NewJob, QueueError, is_settled

FIRST_PAUSE_SECONDS = 0.25
WAIT_PIECE_SECONDS = 60
"""One request for a job that is not settled waits at most this long; proxies cut longer ones."""
ANSWER_WITHIN_SECONDS = 30
"""A request is given up after this, beyond what it is to wait."""


class JobClient:
    """Submits, reads and cancels stored jobs, a request each.

    Every method may raise QueueError. What failed in passing is tried again, which is safe: a submission without an
    id of its own is given one first. Cancelling the task that awaits a method ends its request.
    """

    def __init__(
        self, url: str, *, token: str | None = None, queue_id: str | None = None, retries: int = 4
    ) -> None:
        """
        :param url: address of the queue, such as ``http://127.0.0.1:8788``
        :param token: with the scope ``submit``; ``get``, ``wait`` and ``ledger`` also take one with ``read``
        :param queue_id: which of the queues at that address; its default one if left out
        :param retries: how often a request is tried again that got no answer or a temporary error of the queue
        """
        self._url = url.rstrip("/")
        self._retries = retries
        self._headers = {"content-type": "application/json"}
        if token:
            self._headers["authorization"] = f"Bearer {token}"
        if queue_id:
            self._headers["x-queue-id"] = queue_id
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> JobClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes its connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def submit(self, job: NewJob) -> JobView:
        """Stores a job. The same id with the same payload answers the job that exists."""
        body = {**job, "id": job.get("id") or new_job_id()}
        return cast(JobView, await self._ask("POST", "", body=body))

    async def get(self, job_id: str) -> JobView:
        """The job as it stands."""
        return cast(JobView, await self._ask("GET", path_of(job_id)))

    async def wait(self, job_id: str, seconds: float | None = None) -> JobView:
        """The job once it is settled, or as it stands when the time is over.

        :param seconds: how long to wait; None: as long as the job takes
        """
        ends_at = math.inf if seconds is None else time.monotonic() + seconds
        while True:
            left = max(0.0, ends_at - time.monotonic())
            piece = WAIT_PIECE_SECONDS if left > WAIT_PIECE_SECONDS else math.ceil(left)
            path = f"{path_of(job_id)}?wait={piece}"
            job = cast(JobView, await self._ask("GET", path, wait_seconds=piece))
            if is_settled(job["state"]) or time.monotonic() >= ends_at:
                return job

    async def cancel(self, job_id: str) -> JobView:
        """Cancels a job; one that is settled stays as it is."""
        return cast(JobView, await self._ask("DELETE", path_of(job_id)))

    async def ledger(self, job_id: str) -> list[LedgerStep]:
        """What happened to a job, step by step."""
        answer = await self._ask("GET", f"{path_of(job_id)}/ledger")
        return cast("list[LedgerStep]", answer["steps"])

    def session(self) -> aiohttp.ClientSession:
        if self._session is None:
            # As many requests may wait side by side as the program likes.
            self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
        return self._session

    async def _ask(self, method: str, path: str, *, body: object = None, wait_seconds: int = 0) -> Any:
        text = None if body is None else to_json(body)
        for tried in range(self._retries + 1):
            try:
                return await self._ask_once(method, path, text, wait_seconds)
            except QueueError as error:
                if not _is_passing(error) or tried == self._retries:
                    raise
            await asyncio.sleep(FIRST_PAUSE_SECONDS * 2**tried)
        raise AssertionError("unreachable")

    async def _ask_once(self, method: str, path: str, body: str | None, wait_seconds: int) -> Any:
        # As it is: a slash in an id stays encoded.
        url = URL(f"{self._url}/api/jobs{path}", encoded=True)
        limit = aiohttp.ClientTimeout(total=wait_seconds + ANSWER_WITHIN_SECONDS)
        try:
            async with self.session().request(
                method, url, data=body, headers=self._headers, timeout=limit
            ) as response:
                answer = await response.text()
        except (aiohttp.ClientError, OSError, asyncio.TimeoutError) as error:
            raise QueueError(f"No queue answers at {self._url} ({_reason_of(error)}).", None) from error
        if response.ok:
            return json.loads(answer)
        raise _refusal(response.status, answer)


def path_of(job_id: str) -> str:
    return f"/{quote(job_id, safe='')}"


def to_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _is_passing(error: QueueError) -> bool:
    """Whether the same request may succeed soon: no answer, or a temporary error of queue or proxy."""
    return error.status is None or error.status == 429 or error.status >= 502


def _reason_of(error: BaseException) -> str:
    if isinstance(error, asyncio.TimeoutError):
        return "no answer in time"
    number = error.errno if isinstance(error, OSError) else None
    return errno.errorcode.get(number or 0) or str(error) or type(error).__name__


def _refusal(status: int, text: str) -> QueueError:
    try:
        error = json.loads(text)["error"]
        return QueueError(str(error["message"]), status, error.get("code"))
    except (ValueError, LookupError, TypeError, AttributeError):
        return QueueError(text[:500] or f"HTTP {status} without a message", status)
