"""Anthropic's client for Python: a message, whole and as a stream."""

import os

from anthropic import Anthropic

client = Anthropic(
    base_url=os.environ.get("WORKER_VLLM_URL", "http://127.0.0.1:8788"),
    auth_token=os.environ.get("WORKER_VLLM_TOKEN", "none"),
    api_key=None,
)
model = os.environ.get("WORKER_VLLM_MODEL", "default")
messages = [{"role": "user", "content": "What is the capital of France?"}]

message = client.messages.create(model=model, messages=messages, max_tokens=16)
print("message:", message.content[0].text, message.usage.output_tokens)

print("stream: ", end="")
with client.messages.stream(model=model, messages=messages, max_tokens=16) as stream:
    for text in stream.text_stream:
        print(text, end="", flush=True)
print()
