"""Many stored jobs over one connection: results as the jobs end, whatever breaks meanwhile."""

import asyncio
import os
import time

from worker_vllm import JobConnection

# An id of its own for each: should this program be started again with it, the job is found and not run twice.
run = f"example-{os.getpid()}-{time.time_ns()}"


def questions():
    for n, country in enumerate(["France", "Japan", "Peru", "Kenya", "Norway"]):
        messages = [{"role": "user", "content": f"What is the capital of {country}?"}]
        payload = {"messages": messages, "max_tokens": 16}
        yield {"id": f"{run}.{n}", "job_type": "chat_completion", "payload": payload}


async def main():
    url = os.environ.get("WORKER_VLLM_URL", "http://127.0.0.1:8788")
    async with JobConnection(url, token=os.environ.get("WORKER_VLLM_TOKEN"), in_flight=64) as jobs:
        async for end in jobs.results(questions()):
            if end.job is None:
                print(end.id, "rejected", end.error)
            elif end.job["error"]:
                print(end.id, end.job["state"], end.job["error"]["message"])
            else:
                answer = end.job["result"]["completion"]["choices"][0]["message"]["content"]
                print(end.id, end.job["state"], answer.replace("\n", " "))


asyncio.run(main())
