"""Asks the road what an application asks Anthropic; prints what came as one line of JSON."""

import json
import sys

import anthropic

url, model = sys.argv[1], sys.argv[2]
client = anthropic.Anthropic(base_url=url, api_key="none", max_retries=0)
messages = [{"role": "user", "content": "Say hello."}]
given = {"model": model, "messages": messages, "max_tokens": 8, "extra_body": {"temperature": 0}}
seen = {}

message = client.messages.create(**given)
seen["message"] = [message.type, message.role, message.usage.output_tokens]
with client.messages.stream(**given) as stream:
    text = "".join(stream.text_stream)
    seen["same_text"] = text == message.content[0].text
    seen["stop"] = stream.get_final_message().stop_reason == message.stop_reason
seen["count"] = client.messages.count_tokens(model=model, messages=messages).input_tokens > 0
try:
    client.messages.create(**{**given, "model": "no-such-model"})
except anthropic.NotFoundError as error:
    seen["unknown_model"] = [error.status_code, error.body["type"], error.body["error"]["type"]]

print(json.dumps(seen))
