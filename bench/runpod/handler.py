"""What RunPod's worker does on RunPod's own SDK, by the least code: passes a job to the engine and its answer back."""

import os

import aiohttp
import runpod

ENGINE = os.environ["ENGINE_URL"]
session = None


async def handler(job):
    global session
    if session is None:
        session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
    given = job["input"]
    body = {"model": "tiny", "prompt": given["prompt"], **given["sampling_params"], "stream": given.get("stream", False)}
    async with session.post(f"{ENGINE}/v1/completions", json=body) as answer:
        if not body["stream"]:
            yield await answer.json()
            return
        async for piece in answer.content.iter_any():
            yield piece.decode("utf-8", "replace")


runpod.serverless.start(
    {
        "handler": handler,
        "concurrency_modifier": lambda _: int(os.environ["MAX_CONCURRENCY"]),
        "return_aggregate_stream": True,
    }
)
