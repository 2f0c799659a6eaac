"""Asks for a completion as `vllm bench serve --backend openai` does; prints what it read as one line of JSON."""

import asyncio
import json
import sys

import aiohttp
from vllm.benchmarks.lib.endpoint_request_func import RequestFuncInput, async_request_openai_completions


async def main() -> None:
    asked = RequestFuncInput(
        prompt="count", api_url=sys.argv[1] + "/v1/completions", prompt_len=1, output_len=8, model="tiny"
    )
    async with aiohttp.ClientSession() as session:
        read = await async_request_openai_completions(asked, session)
    print(json.dumps({"success": read.success, "text": read.generated_text, "error": read.error}))


asyncio.run(main())
