"""The official OpenAI client for Python: chat and a stream."""

import os

from openai import OpenAI

client = OpenAI(
    base_url=os.environ.get("WORKER_VLLM_URL", "http://127.0.0.1:8788") + "/v1",
    api_key=os.environ.get("WORKER_VLLM_TOKEN", "none"),
)
model = client.models.list().data[0].id
messages = [{"role": "user", "content": "What is the capital of France?"}]

completion = client.chat.completions.create(model=model, messages=messages, max_tokens=16)
print("chat:", completion.choices[0].message.content, completion.usage)

print("stream: ", end="")
for chunk in client.chat.completions.create(
    model=model, messages=messages, max_tokens=16, stream=True
):
    print(chunk.choices[0].delta.content or "", end="", flush=True)
print()
