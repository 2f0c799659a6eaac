// Runs an agent of OpenAI's SDK with a tool; prints what came as one line of JSON.
import { Agent, OpenAIResponsesModel, Runner, tool } from '@openai/agents';
import OpenAI from 'openai';
import * as z from 'zod';

const [url, model] = process.argv.slice(2);
const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0 });
const asked = [];

const getWeather = tool({
  name: 'get_weather',
  description: 'Tells the weather of a city.',
  parameters: z.object({ city: z.string() }),
  execute: ({ city }) => {
    asked.push(city);
    return `Sunny in ${city}.`;
  },
});
const agent = new Agent({
  name: 'weather',
  instructions: 'Tell the weather.',
  model: new OpenAIResponsesModel(client, model),
  tools: [getWeather],
});
const runner = new Runner({ tracingDisabled: true });

const whole = await runner.run(agent, 'How is Oslo?');
const seen = { whole: whole.finalOutput, asked: [...asked] };

const streamed = await runner.run(agent, 'How is Oslo?', { stream: true });
let text = '';
for await (const piece of streamed.toTextStream({ compatibleWithNodeStreams: false })) text += piece;
await streamed.completed;
seen.streamed = [text, streamed.finalOutput];

// The second run sends its own question alone: the rest is known by the id.
const first = await runner.run(agent, 'How is Oslo?');
const second = await runner.run(agent, 'And Bergen?', { previousResponseId: first.lastResponseId });
seen.chain = [first.finalOutput, second.finalOutput];

const talk = await client.conversations.create();
await runner.run(agent, 'How is Oslo?', { conversationId: talk.id });
const again = await runner.run(agent, 'And Bergen?', { conversationId: talk.id });
seen.conversation = again.finalOutput;
const items = await Array.fromAsync(client.conversations.items.list(talk.id, { order: 'asc' }));
seen.items = items.map(({ type }) => type);
console.log(JSON.stringify(seen));
