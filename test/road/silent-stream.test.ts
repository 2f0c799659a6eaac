import { afterAll, beforeAll, expect, it } from 'vitest';
import { roadTo } from '../support/odd-engine.ts';
import { tearDown } from '../support/road.ts';
import { silentEngine } from '../support/silent-engine.ts';

/** An engine that is silent for longer than the road waits, before its first event and between others. */
const engine = silentEngine({ ids: false, silentMs: 3500 });
let url: string;

beforeAll(async () => {
  url = await roadTo(engine);
});
afterAll(async () => {
  await tearDown();
  engine.close();
});

it('is understood by a reader that strips each piece that it reads', async () => {
  const response = await fetch(`${url}/v1/completions`, {
    method: 'POST',
    body: JSON.stringify({ model: 'tiny', prompt: 'count', stream: true }),
  });
  expect(await asVllmBenchReads(response)).toEqual({
    text: 'one two three',
    messages: expect.arrayContaining([expect.stringMatching(/^: waiting/)]),
  });
});

/** `StreamedResponseHandler` of vLLM 0.32 (vllm/benchmarks/lib/endpoint_request_func.py), and what it is fed. */
async function asVllmBenchReads({ body }: Response): Promise<{ text: string; messages: string[] }> {
  const messages: string[] = [];
  let buffer = '';
  for await (const piece of body!) {
    buffer += Buffer.from(piece).toString().trim();
    const parts = buffer.split('\n\n');
    buffer = parts.pop()!;
    messages.push(...parts.map((part) => part.trim()).filter((part) => part !== ''));
    if (buffer.startsWith('data: ')) {
      messages.push(buffer);
      buffer = '';
    }
  }
  const chunks = messages.filter((one) => one.startsWith('data: {')).map((one) => JSON.parse(one.slice(6)));
  return { text: chunks.map(({ choices }) => choices[0]?.text ?? '').join(''), messages };
}
