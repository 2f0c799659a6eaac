"""Runs an agent of OpenAI's SDK with a tool; prints what came as one line of JSON."""

import asyncio
import json
import sys

from agents import Agent, OpenAIResponsesModel, Runner, function_tool, set_tracing_disabled
from openai import AsyncOpenAI

url, model = sys.argv[1], sys.argv[2]
set_tracing_disabled(True)
client = AsyncOpenAI(base_url=url + "/v1", api_key="none", max_retries=0)
asked = []


@function_tool
def get_weather(city: str) -> str:
    """Tells the weather of a city."""
    asked.append(city)
    return f"Sunny in {city}."


agent = Agent(
    name="weather",
    instructions="Tell the weather.",
    model=OpenAIResponsesModel(model=model, openai_client=client),
    tools=[get_weather],
)


async def main():
    whole = await Runner.run(agent, "How is Oslo?")
    seen = {"whole": whole.final_output, "asked": list(asked)}

    streamed = Runner.run_streamed(agent, "How is Oslo?")
    kinds = [event.data.type async for event in streamed.stream_events() if event.type == "raw_response_event"]
    seen["streamed"] = [streamed.final_output, "response.function_call_arguments.delta" in kinds]

    # The second run sends its own question alone: the rest is known by the id.
    first = await Runner.run(agent, "How is Oslo?", auto_previous_response_id=True)
    second = await Runner.run(agent, "And Bergen?", previous_response_id=first.last_response_id)
    seen["chain"] = [first.final_output, second.final_output]

    talk = await client.conversations.create()
    await Runner.run(agent, "How is Oslo?", conversation_id=talk.id)
    again = await Runner.run(agent, "And Bergen?", conversation_id=talk.id)
    seen["conversation"] = again.final_output
    items = [item.type async for item in await client.conversations.items.list(talk.id, order="asc")]
    seen["items"] = items
    print(json.dumps(seen))


asyncio.run(main())
