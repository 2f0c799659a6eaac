// The official OpenAI client for Node: chat and a stream.
import OpenAI from 'openai';

const client = new OpenAI({
  baseURL: `${process.env.WORKER_VLLM_URL ?? 'http://127.0.0.1:8788'}/v1`,
  apiKey: process.env.WORKER_VLLM_TOKEN ?? 'none',
});
const [model] = (await client.models.list()).data;
const messages = [{ role: 'user', content: 'What is the capital of France?' }];

const completion = await client.chat.completions.create({ model: model.id, messages, max_tokens: 16 });
console.log('chat:', completion.choices[0].message.content, completion.usage);

process.stdout.write('stream: ');
const stream = await client.chat.completions.create({
  model: model.id,
  messages,
  max_tokens: 16,
  stream: true,
});
for await (const chunk of stream) process.stdout.write(chunk.choices[0]?.delta.content ?? '');
process.stdout.write('\n');
