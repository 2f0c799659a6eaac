"""RunPod's Python client against our queue: prints what each scenario gave, as JSON by its name."""

import asyncio
import json
import sys
import time

import requests
import runpod
from runpod import AsyncioEndpoint, http_client

URL, GUARDED_URL = sys.argv[1:]
runpod.api_key = "any-key"
runpod.endpoint_url_base = f"{URL}/v2"

# The client's own limit for some calls is three seconds, for which a busy machine may stand still.
PATIENT = {"timeout": 30}
ENDLESS = {"prompt": "Hello", "sampling_params": {"max_tokens": 4000, "ignore_eos": True}}
SHORT = {"prompt": "Hello", "sampling_params": {"max_tokens": 12, "ignore_eos": True}}
MESSAGES = [{"role": "user", "content": "Hello"}]

endpoint = runpod.Endpoint("default")


def until(job, status):
    for _ in range(300):
        if job._fetch_job()["status"] == status:
            return
        time.sleep(0.1)
    raise TimeoutError(f"the job was never {status}")


def run_sync():
    return endpoint.run_sync(SHORT, timeout=30)


def run():
    # It has the only slot, so that the other one waits until its status was asked for.
    before = endpoint.run(ENDLESS)
    until(before, "IN_PROGRESS")
    job = endpoint.run({"input": SHORT})
    first = job.status()
    before.cancel(**PATIENT)
    output = job.output(timeout=30)
    return {"id": job.job_id, "first": first, "output": output, "last": job.status(), "raw": job._fetch_job()}


def stream():
    job = endpoint.run({**SHORT, "stream": True})
    return {"pieces": list(job.stream()), "output": job._fetch_job()["output"]}


def stream_of_messages():
    job = endpoint.run({"messages": MESSAGES, "stream": True, "max_batch_size": 4, "sampling_params": {"max_tokens": 9}})
    return list(job.stream())


def openai_format():
    return endpoint.run_sync({"messages": MESSAGES, "use_openai_format": True}, timeout=30)


def openai_route():
    body = {"model": "default", "messages": MESSAGES, "max_tokens": 5}
    return endpoint.run_sync({"openai_route": "/v1/chat/completions", "openai_input": body}, timeout=30)


def openai_route_stream():
    body = {"model": "default", "messages": MESSAGES, "max_tokens": 5, "stream": True}
    job = endpoint.run({"openai_route": "/v1/chat/completions", "openai_input": body})
    return "".join(job.stream())


def route():
    return endpoint.run_sync({"route": "/v1/models"}, timeout=30)


def failed():
    job = endpoint.run({"prompt": "Hello", "sampling_params": {"best_of": 3}})
    until(job, "FAILED")
    return {"status": job.status(), "output": job.output(), "error": job._fetch_job()["error"]}


def cancel():
    job = endpoint.run(ENDLESS)
    until(job, "IN_PROGRESS")
    return {"cancelled": job.cancel(**PATIENT), "status": job.status()}


def purge_queue():
    running = endpoint.run(ENDLESS)
    until(running, "IN_PROGRESS")
    waiting = [endpoint.run(SHORT), endpoint.run(SHORT)]
    health = endpoint.health(**PATIENT)
    purged = endpoint.purge_queue(**PATIENT)
    running.cancel(**PATIENT)
    return {"health": health, "purged": purged, "statuses": [job.status() for job in waiting]}


def unknown_endpoint():
    try:
        runpod.Endpoint("nowhere").run(SHORT)
    except requests.HTTPError as error:
        return {"status": error.response.status_code, "body": error.response.json()}


def wrong_key():
    runpod.endpoint_url_base = f"{GUARDED_URL}/v2"
    try:
        runpod.Endpoint("default", api_key="wrong").run(SHORT)
    except RuntimeError as error:
        return str(error)
    finally:
        runpod.endpoint_url_base = f"{URL}/v2"


def right_key():
    answers = [
        requests.get(f"{GUARDED_URL}/v2/default/health", headers={"authorization": key}, timeout=10).status_code
        for key in ["secret-of-the-test", "Bearer secret-of-the-test"]
    ]
    return answers


async def asyncio_client():
    async with http_client.AsyncClientSession() as session:
        asynchronous = AsyncioEndpoint("default", session)
        job = await asynchronous.run(SHORT)
        output = await job.output(timeout=30)
        streaming = await asynchronous.run({**SHORT, "stream": True})
        pieces = [piece async for piece in streaming.stream()]
        endless = await asynchronous.run(ENDLESS)
        cancelled = await endless.cancel()
        return {
            "output": output,
            "status": await job.status(),
            "pieces": pieces,
            "cancelled": cancelled["status"],
            "health": await asynchronous.health(),
            "purged": await asynchronous.purge_queue(),
        }


results = {}
for scenario in [
    *[run_sync, run, stream, stream_of_messages, openai_format, openai_route, openai_route_stream, route, failed],
    *[cancel, purge_queue, unknown_endpoint, wrong_key, right_key],
    lambda: asyncio.run(asyncio_client()),
]:
    name = scenario.__name__ if scenario.__name__ != "<lambda>" else "asyncio_client"
    try:
        results[name] = {"value": scenario()}
    except Exception as error:  # Told to the test that asks for it.
        results[name] = {"error": repr(error)}
print(json.dumps(results))
