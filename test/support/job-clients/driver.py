"""Calls the client of clients/python as it is told on stdin: program.ts. driver.ts is the same in TypeScript."""

import asyncio
import json
import sys

from worker_vllm import JobClient, JobConnection, QueueError

made = {}
running = {}


def tell(told):
    print(json.dumps(told), flush=True)


def error_of(error):
    if not isinstance(error, QueueError):
        return {"message": repr(error), "status": 0, "code": None, "cause": None}
    cause = None if error.__cause__ is None else repr(error.__cause__)
    return {"message": str(error), "status": error.status, "code": error.code, "cause": cause}


def end_of(end):
    return {"id": end.id, "job": end.job, "error": end.error and error_of(end.error)}


async def call(line):
    do = line["do"]
    if do == "make":
        kind = JobClient if line["kind"] == "client" else JobConnection
        made[line["on"]] = kind(**line["options"])
        return None
    on = made[line["on"]]
    if do == "wait":
        return await on.wait(line["id"], line["seconds"])
    if do in ("submit", "run"):
        return await getattr(on, do)(line["job"])
    if do in ("get", "cancel", "ledger"):
        return await getattr(on, do)(line["id"])
    if do == "settle":
        return end_of(await on.settle(line["job"]))
    if do == "close":
        return await on.close()
    taken = 0
    async for end in on.results(line["jobs"]):
        tell({"call": line["call"], "end": end_of(end)})
        taken += 1
        if taken == line["take"]:
            await asyncio.Event().wait()


async def run(line):
    try:
        tell({"call": line["call"], "value": await call(line)})
    except asyncio.CancelledError:
        tell({"call": line["call"], "value": "stopped"})
    except Exception as error:
        tell({"call": line["call"], "error": error_of(error)})
    finally:
        del running[line["call"]]


async def main():
    lines = asyncio.StreamReader(limit=64 * 1024 * 1024)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    while text := await lines.readline():
        line = json.loads(text)
        if "stop" in line:
            if task := running.get(line["stop"]):
                task.cancel()
            continue
        running[line["call"]] = asyncio.create_task(run(line))


asyncio.run(main())
