"""Asks the road what an application asks OpenAI; prints what came as one line of JSON."""

import json
import sys
import time

import openai
from openai import OpenAI

url, model = sys.argv[1], sys.argv[2]
client = OpenAI(base_url=url + "/v1", api_key="none", max_retries=0)
messages = [{"role": "user", "content": "Say hello."}]
seen = {}

whole = client.chat.completions.create(model=model, messages=messages, max_tokens=8, temperature=0, seed=1)
seen["chat"] = {"text": whole.choices[0].message.content, "tokens": whole.usage.completion_tokens}

text, usage = "", None
for chunk in client.chat.completions.create(
    model=model,
    messages=messages,
    max_tokens=8,
    temperature=0,
    seed=1,
    stream=True,
    stream_options={"include_usage": True},
):
    text += (chunk.choices[0].delta.content or "") if chunk.choices else ""
    usage = chunk.usage.completion_tokens if chunk.usage else usage
seen["stream"] = {"text": text, "tokens": usage}

completion = client.completions.create(model=model, prompt="Once", max_tokens=4, temperature=0)
seen["completion"] = completion.usage.completion_tokens

raw = client.chat.completions.with_raw_response.create(
    model=model, messages=messages, max_tokens=1, temperature=0, extra_headers={"X-Request-Id": "req-of-python"}
)
seen["request_id"] = raw.headers["x-request-id"]

response = client.responses.create(model=model, input="Say hello.", max_output_tokens=16, temperature=0)
seen["responses"] = {"status": response.status, "text": response.output_text != ""}
kinds = [
    event.type
    for event in client.responses.create(
        model=model, input="Say hello.", max_output_tokens=16, temperature=0, stream=True
    )
]
seen["response_events"] = [kinds[0], kinds[-1]]

try:
    client.chat.completions.create(model="no-such-model", messages=messages)
except openai.NotFoundError as error:
    seen["unknown_model"] = [error.status_code, error.code]
try:
    client.chat.completions.create(model=model, messages=messages, temperature=-1)
except openai.BadRequestError as error:
    seen["bad_request"] = error.status_code
try:
    client.with_options(timeout=0.3).chat.completions.create(
        model=model, messages=messages, max_tokens=1500, temperature=0, extra_body={"ignore_eos": True}
    )
except openai.APITimeoutError:
    seen["timeout"] = True

stream = client.chat.completions.create(
    model=model, messages=messages, max_tokens=1500, temperature=0, stream=True, extra_body={"ignore_eos": True}
)
next(iter(stream))
stream.close()
seen["aborted_at"] = time.time()

if "--embeddings" in sys.argv:
    embedding = client.embeddings.create(model=model, input=["a", "b"])
    seen["embeddings"] = len(embedding.data)

if "--tools" in sys.argv:
    schema = {
        "type": "object",
        "properties": {"city": {"enum": ["Paris", "Oslo"]}},
        "required": ["city"],
        "additionalProperties": False,
    }
    called = client.chat.completions.create(
        model=model,
        messages=messages,
        max_tokens=64,
        temperature=0,
        tools=[{"type": "function", "function": {"name": "weather", "parameters": schema}}],
        tool_choice={"type": "function", "function": {"name": "weather"}},
    )
    seen["tool"] = called.choices[0].message.tool_calls[0].function.name
    structured = client.chat.completions.create(
        model=model,
        messages=messages,
        max_tokens=64,
        temperature=0,
        response_format={"type": "json_schema", "json_schema": {"name": "a", "schema": schema}},
    )
    # A model of random weights may fill all its tokens with blanks between the braces.
    seen["structured"] = structured.choices[0].message.content.lstrip()[:1]

print(json.dumps(seen))
