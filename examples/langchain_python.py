"""LangChain: a prompt and a model as a chain, invoked and streamed."""

import os

from langchain_core.prompts import ChatPromptTemplate
from langchain_openai import ChatOpenAI

model = ChatOpenAI(
    base_url=os.environ.get("WORKER_VLLM_URL", "http://127.0.0.1:8788") + "/v1",
    api_key=os.environ.get("WORKER_VLLM_TOKEN", "none"),
    model=os.environ.get("WORKER_VLLM_MODEL", "default"),
    max_tokens=16,
)
chain = ChatPromptTemplate.from_template("What is the capital of {country}?") | model

print("invoke:", chain.invoke({"country": "France"}).content)

print("stream: ", end="")
for chunk in chain.stream({"country": "France"}):
    print(chunk.content, end="", flush=True)
print()
