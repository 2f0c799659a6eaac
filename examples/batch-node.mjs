// The official OpenAI client for Node: a file of requests, run as a batch.
import { setTimeout as sleep } from 'node:timers/promises';
import OpenAI, { toFile } from 'openai';

const client = new OpenAI({
  baseURL: `${process.env.WORKER_VLLM_URL ?? 'http://127.0.0.1:8788'}/v1`,
  apiKey: process.env.WORKER_VLLM_TOKEN ?? 'none',
});
const [model] = (await client.models.list()).data;

const lines = [0, 1, 2, 3, 4].map((n) => ({
  custom_id: `question-${n}`,
  method: 'POST',
  url: '/v1/chat/completions',
  body: {
    model: model.id,
    messages: [{ role: 'user', content: `What is ${n} times ${n}?` }],
    max_tokens: 8,
  },
}));
const content = lines.map((line) => JSON.stringify(line)).join('\n');

const uploaded = await client.files.create({
  file: await toFile(Buffer.from(content), 'questions.jsonl'),
  purpose: 'batch',
});
let batch = await client.batches.create({
  input_file_id: uploaded.id,
  endpoint: '/v1/chat/completions',
  completion_window: '24h',
});
while (['validating', 'in_progress', 'finalizing'].includes(batch.status)) {
  await sleep(1000);
  batch = await client.batches.retrieve(batch.id);
}
console.log('batch:', batch.status, JSON.stringify(batch.request_counts));

const output = await (await client.files.content(batch.output_file_id)).text();
for (const line of output.trim().split('\n')) {
  const { custom_id, response } = JSON.parse(line);
  const [{ message }] = response.body.choices;
  console.log('answer:', custom_id, message.content.replaceAll('\n', ' '));
}
