"""RunPod's client for Python: run and wait, run and look, a stream."""

import os

import runpod

runpod.endpoint_url_base = os.environ.get("WORKER_VLLM_URL", "http://127.0.0.1:8788") + "/v2"
runpod.api_key = os.environ.get("WORKER_VLLM_TOKEN", "none")
endpoint = runpod.Endpoint(os.environ.get("WORKER_VLLM_MODEL", "default"))
request = {
    "input": {
        "messages": [{"role": "user", "content": "What is the capital of France?"}],
        "sampling_params": {"max_tokens": 16},
    }
}

print("run_sync:", endpoint.run_sync(request, timeout=60))

job = endpoint.run(request)
print("status:", job.status())
print("output:", job.output(timeout=60))

streamed = endpoint.run({"input": {**request["input"], "stream": True}})
for piece in streamed.stream():
    print("piece:", piece)

print("health:", endpoint.health())
