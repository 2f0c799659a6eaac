"""LiteLLM: the road as an OpenAI-compatible provider."""

import os

import litellm

model = "openai/" + os.environ.get("WORKER_VLLM_MODEL", "default")
given = {
    "model": model,
    "api_base": os.environ.get("WORKER_VLLM_URL", "http://127.0.0.1:8788") + "/v1",
    "api_key": os.environ.get("WORKER_VLLM_TOKEN", "none"),
    "messages": [{"role": "user", "content": "What is the capital of France?"}],
    "max_tokens": 16,
}

print("completion:", litellm.completion(**given).choices[0].message.content)

print("stream: ", end="")
for chunk in litellm.completion(**given, stream=True):
    print(chunk.choices[0].delta.content or "", end="", flush=True)
print()
