from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterable, Iterable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, cast

import aiohttp

from ._client import JobClient, to_json
from ._ids import new_job_id
from ._link import Link
from ._results import results_of
from ._types import JobEnd, JobView, NewJob, QueueError, is_settled

PAYLOAD_BYTES = 20 * 1024 * 1024
JOBS_PER_SUBMISSION = 1000
FRAME_CHARACTERS = 1_000_000
"""A frame of submissions holds about so many characters."""
FIRST_PAUSE_SECONDS = 0.1
LAST_PAUSE_SECONDS = 10.0
"""Between attempts to connect: doubles from the first to the last, each with up to half of it added."""
FULL_PAUSE_SECONDS = 1.0
"""A job is submitted again this long after the queue said it is full, unless it said how long."""


@dataclass(eq=False)
class _OpenJob:
    """
    - ``waiting``   to be submitted, on this connection or the next. → ``sent``
    - ``sent``      submitted, not answered. → ``accepted``, ``waiting`` (the connection broke, or the queue is full)
    - ``accepted``  the queue has stored it. → ``accepted`` (listened for again on the next connection), ``waiting``
                    (the queue does not know it)

    A job that has ended is forgotten.
    """

    id: str
    text: str
    end: asyncio.Future[JobEnd]
    state: Literal["waiting", "sent", "accepted"] = "waiting"
    was_accepted: bool = False
    """Its queue said once that it has taken it."""


class JobConnection:
    """One WebSocket for programs that submit many jobs.

    What is ready in the same turn of the event loop shares a frame and a commit, and results come as jobs end. When
    the connection breaks it dials again for as long as jobs are open, submits what was not confirmed and listens for
    the rest: since every job has an id, none is lost and none runs twice.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        queue_id: str | None = None,
        retries: int = 4,
        in_flight: int = 256,
        ping_seconds: float = 15,
    ) -> None:
        """
        :param url: address of the queue, such as ``http://127.0.0.1:8788``
        :param token: with the scope ``submit``
        :param queue_id: which of the queues at that address; its default one if left out
        :param retries: how often a request for a long result is tried again
        :param in_flight: jobs that may be submitted and not settled at a time. Further jobs wait here
        :param ping_seconds: between pings. A queue that is silent for two of them is gone
        """
        self._client = JobClient(url, token=token, queue_id=queue_id, retries=retries)
        self._url = f"{url.rstrip('/')}/api/jobs/socket"
        self._parameters = {"queue_id": queue_id} if queue_id else {}
        self._headers = {"authorization": f"Bearer {token}"} if token else {}
        self._in_flight = in_flight
        self._ping_seconds = ping_seconds
        self._places = asyncio.Semaphore(in_flight)
        self._open: dict[str, _OpenJob] = {}
        self._link: Link | None = None
        self._failures = 0
        self._dialling: asyncio.Task[None] | None = None
        self._reads: set[asyncio.Task[None]] = set()
        self._closed: QueueError | None = None

    async def __aenter__(self) -> JobConnection:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def settle(self, job: NewJob) -> JobEnd:
        """Submits a job and returns how it ended; never raises QueueError. Waits while ``in_flight`` jobs are open.

        When the task that awaits it is cancelled, the job is forgotten here and goes on at the queue.
        """
        async with self._places:
            job_id = job.get("id") or new_job_id()
            text = to_json({**job, "id": job_id})
            error = self._objection(job_id, text)
            if error is not None:
                return JobEnd(job_id, error=error)
            open_job = _OpenJob(job_id, text, asyncio.get_running_loop().create_future())
            self._open[job_id] = open_job
            self._wake()
            try:
                return await open_job.end
            finally:
                del self._open[job_id]

    async def run(self, job: NewJob) -> JobView:
        """The same for a single job.

        :raises QueueError: when the queue does not take the job, or the connection is closed or denied
        """
        end = await self.settle(job)
        if end.error is not None:
            raise end.error
        assert end.job is not None
        return end.job

    def results(self, jobs: Iterable[NewJob] | AsyncIterable[NewJob]) -> AsyncGenerator[JobEnd, None]:
        """Submits jobs as there is room for them, and gives them back as they end.

        :raises QueueError: when the connection is closed or denied; what the source raises
        """
        return results_of(self.settle, jobs, self._in_flight)

    async def close(self) -> None:
        """Jobs that are open go on at the queue; here they end with an error."""
        self._give_up(QueueError("The connection was closed here.", None, "closed"))
        tasks = [*self._reads, *([self._dialling] if self._dialling else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._client.close()

    def _objection(self, job_id: str, text: str) -> QueueError | None:
        if self._closed is not None:
            return self._closed
        if job_id in self._open:
            return QueueError(
                f'A job with the id "{job_id}" is in flight on this connection.', 409, "conflict"
            )
        # The queue would close the connection for it, each time it came.
        if len(text) * 3 > PAYLOAD_BYTES and len(text.encode()) > PAYLOAD_BYTES:
            most = PAYLOAD_BYTES // 1024 // 1024
            return QueueError(f'The job "{job_id}" is larger than {most} MiB.', 413, "too_large")
        return None

    def _wake(self) -> None:
        """Something waits to be submitted."""
        if self._link is not None:
            self._link.wake()
        elif self._dialling is None or self._dialling.done():
            self._dialling = asyncio.ensure_future(self._stay_connected())

    async def _stay_connected(self) -> None:
        try:
            # Nothing is awaited between the look at what is open and the end, so no job comes unseen.
            while self._open and self._closed is None:
                await self._connect()
                for job in self._open.values():
                    if job.state == "sent":
                        job.state = "waiting"
                pause = min(LAST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2**self._failures)
                self._failures = min(self._failures + 1, 16)
                await asyncio.sleep(pause * (1 + random.random() / 2))
        except Exception as error:
            broken = QueueError(f"The connection failed: {error!r}.", None)
            broken.__cause__ = error
            self._give_up(broken)

    async def _connect(self) -> None:
        """Returns when there is no connection (any more)."""
        dialled = self._client.session().ws_connect(
            self._url,
            params=self._parameters,
            headers=self._headers,
            max_msg_size=0,
            timeout=aiohttp.ClientWSTimeout(ws_close=1),
        )
        try:
            socket = await asyncio.wait_for(dialled, 2 * self._ping_seconds)
        except aiohttp.WSServerHandshakeError as denied:
            if denied.status in (401, 403):
                self._give_up(await self._why_denied(denied))
            return
        except (aiohttp.ClientError, OSError, asyncio.TimeoutError):
            return
        async with socket:
            self._link = Link(socket, self._ping_seconds, self._on_frame, self._submissions)
            try:
                accepted = [
                    job.id for job in self._open.values() if job.state == "accepted" and not job.end.done()
                ]
                for start in range(0, len(accepted), JOBS_PER_SUBMISSION):
                    self._link.send({"type": "listen", "ids": accepted[start : start + JOBS_PER_SUBMISSION]})
                await self._link.run()
            finally:
                self._link = None

    async def _why_denied(self, denied: aiohttp.WSServerHandshakeError) -> QueueError:
        """What denies a WebSocket comes without its text; the same question by a request has it."""
        try:
            await self._client.get("-")
        except QueueError as error:
            if error.status == denied.status:
                return error
        return QueueError(f"The queue denied the connection with {denied.status}.", denied.status)

    def _submissions(self) -> Iterator[str]:
        texts: list[str] = []
        characters = 0
        for job in list(self._open.values()):
            if job.state != "waiting" or job.end.done():
                continue
            if texts and (len(texts) >= JOBS_PER_SUBMISSION or characters + len(job.text) > FRAME_CHARACTERS):
                yield _submission(texts)
                texts, characters = [], 0
            texts.append(job.text)
            characters += len(job.text)
            job.state = "sent"
        if texts:
            yield _submission(texts)

    def _on_frame(self, frame: dict[str, Any]) -> None:
        self._failures = 0
        kind = frame["type"]
        if kind == "submitted":
            for answer in frame["answers"]:
                self._on_answer(answer)
        elif kind == "settled":
            task = asyncio.ensure_future(self._take_settled(frame["jobs"], self._link))
            self._reads.add(task)
            task.add_done_callback(self._reads.discard)
        elif kind == "unknown":
            for job_id in frame["ids"]:
                self._on_unknown(job_id)
        elif kind == "error":
            # The queue may or may not have taken its jobs: all that are not answered are submitted again.
            for job in self._open.values():
                if job.state == "sent":
                    self._again(job, frame["error"])

    def _on_answer(self, answer: dict[str, Any]) -> None:
        job = self._open.get(answer["id"] or "")
        if job is None or job.state != "sent":
            return
        error = answer.get("error")
        if error is None:
            job.state = "accepted"
            job.was_accepted = True
        elif error["status"] == 429 or error["status"] >= 502:
            self._again(job, error)
        else:
            _end(job, error=QueueError(error["message"], error["status"], error["code"]))

    def _again(self, job: _OpenJob, error: dict[str, Any]) -> None:
        """Submits it again after a while."""

        def submit() -> None:
            if self._open.get(job.id) is job and job.state == "sent":
                job.state = "waiting"
                self._wake()

        pause = cast(float, error.get("retry_after_seconds", FULL_PAUSE_SECONDS))
        asyncio.get_running_loop().call_later(pause * (1 + random.random() / 2), submit)

    async def _take_settled(self, jobs: list[dict[str, Any]], link: Link | None) -> None:
        """Nobody awaits it, so it ends the connection where the frame cannot be read."""
        try:
            await self._on_settled(jobs, link)
        except Exception as error:
            broken = QueueError(f"The queue sent a frame that cannot be read: {error!r}.", None)
            broken.__cause__ = error
            self._give_up(broken)
            if link is not None:
                link.close()

    async def _on_settled(self, jobs: list[dict[str, Any]], link: Link | None) -> None:
        for settled in jobs:
            job = self._open.get(settled["id"])
            if job is None:
                continue
            try:
                is_long = settled.pop("has_long_result", False)
                view = await self._client.get(job.id) if is_long else cast(JobView, settled)
                if is_settled(view["state"]):
                    _end(job, view)
            except QueueError as error:
                _end(job, error=error)
        if link is not None:
            link.send({"type": "ack"})

    def _on_unknown(self, job_id: str) -> None:
        """Either it never arrived, or it was settled so long ago that its queue has forgotten it."""
        job = self._open.get(job_id)
        if job is None:
            return
        if job.was_accepted:
            message = (
                f"The queue does not know job {job_id} any more: "
                "it settled while this program was away, and was removed."
            )
            _end(job, error=QueueError(message, 404, "job_not_found"))
            return
        job.state = "waiting"
        self._wake()

    def _give_up(self, error: QueueError) -> None:
        self._closed = self._closed or error
        for job in self._open.values():
            _end(job, error=error)


def _submission(texts: list[str]) -> str:
    return f'{{"type":"submit","jobs":[{",".join(texts)}]}}'


def _end(job: _OpenJob, view: JobView | None = None, error: QueueError | None = None) -> None:
    if not job.end.done():
        job.end.set_result(JobEnd(job.id, view, error))
