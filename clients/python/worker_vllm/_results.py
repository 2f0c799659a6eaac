from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Iterable

from ._types import JobEnd, NewJob


async def results_of(
    settle: Callable[[NewJob], Awaitable[JobEnd]], jobs: Iterable[NewJob] | AsyncIterable[NewJob], most: int
) -> AsyncGenerator[JobEnd, None]:
    """Settles jobs side by side and gives them back in the order in which they end.

    :param most: jobs that run, or whose ends the program has not read yet: beyond it the source is not read
    :raises QueueError: of a job that failed for want of a connection; what the source raises
    """
    # None: the source is read to its end; an exception: what it raised. Either comes last.
    ended: asyncio.Queue[JobEnd | Exception | None] = asyncio.Queue()
    room = asyncio.Semaphore(most)
    running: set[asyncio.Task[None]] = set()

    async def settle_one(job: NewJob) -> None:
        try:
            ended.put_nowait(await settle(job))
        except Exception as error:
            ended.put_nowait(error)

    async def read() -> None:
        failure: Exception | None = None
        try:
            async for job in _each(jobs):
                await room.acquire()
                task = asyncio.ensure_future(settle_one(job))
                running.add(task)
                task.add_done_callback(running.discard)
        except Exception as error:
            failure = error
        if running:
            await asyncio.wait(set(running))
        ended.put_nowait(failure)

    reader = asyncio.ensure_future(read())
    try:
        while (end := await ended.get()) is not None:
            room.release()
            if isinstance(end, Exception):
                raise end
            if end.error is not None and end.error.status is None:
                raise end.error
            yield end
    finally:
        # Jobs that are open go on at the queue.
        for task in [reader, *running]:
            task.cancel()
        await asyncio.gather(reader, *running, return_exceptions=True)


async def _each(jobs: Iterable[NewJob] | AsyncIterable[NewJob]) -> AsyncGenerator[NewJob, None]:
    if isinstance(jobs, AsyncIterable):
        async for job in jobs:
            yield job
    else:
        for job in jobs:
            yield job
