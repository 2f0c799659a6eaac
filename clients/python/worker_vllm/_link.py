from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterable
from typing import Any

import aiohttp

from ._client import to_json

PING = '{"type":"ping"}'
PONG = '{"type":"pong"}'
LONG_FRAME_CHARACTERS = 64 * 1024
SLOWEST_CHARACTERS_A_SECOND = 64 * 1024
"""A line that is slower than this, while a long frame is sent, is taken for gone."""


class Link:
    """One WebSocket: frames in and out, and pings, since a network that goes away closes nothing."""

    def __init__(
        self,
        socket: aiohttp.ClientWebSocketResponse,
        ping_seconds: float,
        on_frame: Callable[[dict[str, Any]], None],
        next_frames: Callable[[], Iterable[str]],
    ) -> None:
        """
        :param on_frame: is given each frame that comes
        :param next_frames: texts of what is to be sent next; asked after `wake`, when the same turn is over
        """
        self._socket = socket
        self._ping_seconds = ping_seconds
        self._on_frame = on_frame
        self._next_frames = next_frames
        self._control: list[str] = []
        self._has_work = asyncio.Event()
        self._closed = asyncio.Event()
        self._heard_at = time.monotonic()
        self._sent_at = 0.0
        """Of the last long frame; in the future: by then the one that is being sent has to be gone."""

    async def run(self) -> None:
        """Returns when the connection is over, for whatever reason."""
        self.wake()
        parts = [asyncio.ensure_future(part) for part in (self._read(), self._write(), self._watch(), self._closed.wait())]
        try:
            await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for part in parts:
                part.cancel()
            ends = await asyncio.gather(*parts, return_exceptions=True)
        for end in ends:
            if isinstance(end, Exception) and not isinstance(end, (aiohttp.ClientError, OSError)):
                raise end

    def send(self, frame: dict[str, Any]) -> None:
        self._control.append(to_json(frame))
        self.wake()

    def close(self) -> None:
        """Ends the connection: `run` returns."""
        self._closed.set()

    def wake(self) -> None:
        self._has_work.set()

    async def _read(self) -> None:
        async for message in self._socket:
            self._heard_at = time.monotonic()
            if message.type is aiohttp.WSMsgType.TEXT and message.data != PONG:
                self._on_frame(json.loads(message.data))

    async def _write(self) -> None:
        while True:
            await self._has_work.wait()
            self._has_work.clear()
            # What becomes ready in this turn goes together.
            await asyncio.sleep(0)
            control, self._control = self._control, []
            for text in [*control, *self._next_frames()]:
                # Pongs wait behind a long frame; that it was sent shows that the connection is alive, too.
                if len(text) > LONG_FRAME_CHARACTERS:
                    self._sent_at = time.monotonic() + len(text) / SLOWEST_CHARACTERS_A_SECOND
                await self._socket.send_str(text)
                self._sent_at = min(self._sent_at, time.monotonic())

    async def _watch(self) -> None:
        while time.monotonic() <= max(self._heard_at, self._sent_at) + 2 * self._ping_seconds:
            await asyncio.sleep(self._ping_seconds)
            self._control.append(PING)
            self.wake()
