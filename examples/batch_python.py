"""The official OpenAI client for Python: a file of requests, run as a batch."""

import json
import os
import time

from openai import OpenAI

client = OpenAI(
    base_url=os.environ.get("WORKER_VLLM_URL", "http://127.0.0.1:8788") + "/v1",
    api_key=os.environ.get("WORKER_VLLM_TOKEN", "none"),
)
model = client.models.list().data[0].id

lines = [
    {
        "custom_id": f"question-{n}",
        "method": "POST",
        "url": "/v1/chat/completions",
        "body": {
            "model": model,
            "messages": [{"role": "user", "content": f"What is {n} times {n}?"}],
            "max_tokens": 8,
        },
    }
    for n in range(5)
]
content = "\n".join(json.dumps(line) for line in lines).encode()

uploaded = client.files.create(file=("questions.jsonl", content), purpose="batch")
batch = client.batches.create(
    input_file_id=uploaded.id, endpoint="/v1/chat/completions", completion_window="24h"
)
while batch.status in ("validating", "in_progress", "finalizing"):
    time.sleep(1)
    batch = client.batches.retrieve(batch.id)
print("batch:", batch.status, batch.request_counts)

for line in client.files.content(batch.output_file_id).text.splitlines():
    answer = json.loads(line)
    choice = answer["response"]["body"]["choices"][0]
    print("answer:", answer["custom_id"], choice["message"]["content"].replace("\n", " "))
