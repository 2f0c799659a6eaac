"""Reads a stream of an engine that is silent for seconds; prints what it said as one line of JSON."""

import json
import sys

from openai import OpenAI

client = OpenAI(base_url=sys.argv[1] + "/v1", api_key="none", max_retries=0)
text = ""
for chunk in client.chat.completions.create(
    model="tiny", messages=[{"role": "user", "content": "count"}], stream=True
):
    text += chunk.choices[0].delta.content or ""
print(json.dumps({"text": text}))
