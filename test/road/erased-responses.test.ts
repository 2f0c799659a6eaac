import OpenAI from 'openai';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { filesWith } from '../support/on-disk.ts';
import { until } from '../support/poll.ts';
import { type QueueProcess, readyWorker, startQueue, tearDown } from '../support/road.ts';

/** What is on the disk of a queue after a response in the background was deleted. */
let queue: QueueProcess;
let client: OpenAI;

beforeEach(async () => {
  queue = await startQueue();
  client = new OpenAI({ baseURL: `${queue.url}/v1`, apiKey: 'none', maxRetries: 0 });
  await readyWorker(queue.url, 'w', { engineArgs: '--max-model-len 4m' });
});
afterEach(tearDown);

const WORD = 'Xylophonkonzert';

async function made(input: string, max_output_tokens: number, stream: boolean) {
  const asked = { model: 'tiny', input, max_output_tokens, ignore_eos: true, background: true } as const;
  let id = '';
  if (stream) {
    for await (const event of await client.responses.create({ ...asked, stream }))
      if (event.type === 'response.created') id = event.response.id;
  } else ({ id } = await client.responses.create(asked));
  return await until(async () => {
    const response = await client.responses.retrieve(id);
    return response.status === 'queued' || response.status === 'in_progress' ? null : response;
  }, 'it has ended');
}

it.each([
  { what: 'in rows', repeat: 10, tokens: 50, stream: false },
  { what: 'in long rows', repeat: 10_000, tokens: 900, stream: true },
  { what: 'in files', repeat: 20_000, tokens: 4000, stream: true },
])('input and answer $what are gone from the queue', async ({ repeat, tokens, stream }) => {
  const word = `${WORD}-${repeat}`;
  const response = await made(`${word} `.repeat(repeat), tokens, stream);
  expect(response.status).toBe('incomplete');
  // JSON has some characters in another form.
  const answer = /[a-z ]{40}/.exec(response.output_text)![0];
  const onDisk = () => [word, answer].map((text) => filesWith(queue.stateDir, text));
  for (const files of onDisk()) expect(files).not.toEqual([]);
  await client.responses.delete(response.id);
  const job = await fetch(`${queue.url}/api/jobs/${response.id}`);
  expect(await job.json()).toMatchObject({ state: 'succeeded', result: null });
  expect((await fetch(`${queue.url}/api/jobs/${response.id}/payload`)).status).toBe(404);
  // The logs of the databases are written into them, and end.
  await queue.process.stop();
  expect(onDisk()).toEqual([[], []]);
});
