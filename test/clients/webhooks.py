"""Reads posts as JSON lines {headers, text} and prints each event as openai-python's own helper reads it."""

import json
import sys

import openai
from openai import OpenAI

client = OpenAI(api_key="none", webhook_secret=sys.argv[1])
seen = []
for line in sys.argv[2].splitlines():
    post = json.loads(line)
    event = client.webhooks.unwrap(post["text"], post["headers"])
    seen.append([type(event).__name__, event.type, event.data.id])
    try:
        client.webhooks.unwrap(post["text"] + " ", post["headers"])
        seen.append("a forged event was taken")
    except openai.InvalidWebhookSignatureError:
        pass
print(json.dumps(seen))
