"""A stub handler on RunPod's own SDK: what test/support/fake-serverless.ts is held against."""

import asyncio
import os

import runpod


async def handler(job):
    given = job["input"]
    if "fail" in given:
        raise ValueError(given["fail"])
    if "progress" in given:
        runpod.serverless.progress_update(job, given["progress"])
        await asyncio.sleep(0.5)
    for piece in given.get("pieces", []):
        await asyncio.sleep(given.get("pause", 0))
        yield piece
    if "error" in given:
        yield {"error": given["error"]}


runpod.serverless.start(
    {
        "handler": handler,
        "concurrency_modifier": lambda _: int(os.environ["CONCURRENCY"]),
        "return_aggregate_stream": True,
    }
)
