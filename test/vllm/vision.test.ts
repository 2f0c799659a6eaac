import { join } from 'node:path';
import { crc32, deflateSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ensureVllm } from '../../scripts/vllm/setup.ts';
import {
  chatJob,
  type QueueProcess,
  settled,
  startQueue,
  stateFolder,
  submit,
  tearDown,
  type WorkerProcess,
} from '../support/road.ts';
import { make, startOverVllm } from './worker.ts';

/** Images over real vLLM, with a tiny model that looks at them: what comes through is what vLLM itself answers. */
let queue: QueueProcess;
let worker: WorkerProcess;

beforeAll(async () => {
  const vllm = await ensureVllm();
  const model = join(stateFolder(), 'tiny-vision');
  make(vllm, 'make_tiny_model.py', model, '--vision');
  queue = await startQueue();
  worker = await startOverVllm(vllm, queue.url, {
    model,
    name: 'tiny-vision',
    env: { LOAD_FORMAT: 'auto', MAX_MODEL_LEN: '2048' },
  });
});
afterAll(tearDown);

/** A PNG of 64 by 64 in one colour, as a data URL. */
function image(...colour: [red: number, green: number, blue: number]): string {
  const [side, row] = [64, [0, ...Array.from({ length: 64 }, () => colour).flat()]];
  const header = Buffer.from([0, 0, 0, side, 0, 0, 0, side, 8, 2, 0, 0, 0]);
  const pixels = deflateSync(Buffer.from(Array.from({ length: side }, () => row).flat()));
  const chunks = [chunk('IHDR', header), chunk('IDAT', pixels), chunk('IEND', Buffer.alloc(0))];
  const png = Buffer.concat([Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'), ...chunks]);
  return `data:image/png;base64,${png.toString('base64')}`;
}

function chunk(kind: string, data: Buffer): Buffer {
  const [length, check] = [Buffer.alloc(4), Buffer.alloc(4)];
  const content = Buffer.concat([Buffer.from(kind), data]);
  length.writeUInt32BE(data.length);
  check.writeUInt32BE(crc32(content));
  return Buffer.concat([length, content, check]);
}

function asking(...images: string[]) {
  const parts = images.map((url) => ({ type: 'image_url', image_url: { url } }));
  const content = [{ type: 'text', text: 'What colour is it?' }, ...parts];
  return {
    messages: [{ role: 'user', content }],
    max_tokens: 24,
    temperature: 0,
    ignore_eos: true,
    logprobs: true,
  };
}

interface Answer {
  choices: { message: { content: string }; logprobs: { content: { logprob: number }[] } }[];
  usage: { prompt_tokens: number };
}

async function answered(at: string, body: object): Promise<Answer> {
  const answer = await fetch(`${at}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'tiny-vision', ...body }),
  });
  const text = await answer.text();
  expect(answer.status, text).toBe(200);
  return JSON.parse(text);
}

/** What the model made of the image shows in its first choice of a token. */
const seen = ({ choices, usage }: Answer) => ({
  text: choices[0]?.message.content,
  first: choices[0]?.logprobs.content[0]?.logprob,
  prompt: usage.prompt_tokens,
});

const [RED, BLUE] = [image(255, 0, 0), image(0, 0, 255)];

describe('images over real vLLM', () => {
  it('are answered through the road as by the engine itself', async () => {
    for (const request of [asking(RED), asking(BLUE), asking(RED, BLUE)])
      expect(seen(await answered(queue.url, request))).toEqual(
        seen(await answered(worker.engineUrl, request)),
      );
  });

  it('reach the model: another image, another answer, and tokens of the prompt for each', async () => {
    const [none, red, blue, both] = [
      seen(await answered(queue.url, asking())),
      seen(await answered(queue.url, asking(RED))),
      seen(await answered(queue.url, asking(BLUE))),
      seen(await answered(queue.url, asking(RED, BLUE))),
    ];
    expect(red.first).not.toBe(blue.first);
    expect(red.prompt).toBeGreaterThan(none.prompt);
    expect(blue.prompt).toBe(red.prompt);
    expect(both.prompt - red.prompt).toBe(red.prompt - none.prompt);
  });

  it('of a stored job are answered alike', async () => {
    const direct = seen(await answered(worker.engineUrl, asking(BLUE)));
    const { id } = await submit(queue.url, chatJob(24, { payload: asking(BLUE) }));
    const { state, result } = await settled(queue.url, id);
    expect(state).toBe('succeeded');
    expect(JSON.stringify(result)).toContain(JSON.stringify(direct.text));
  });

  it('that are none are the engine’s 400', async () => {
    const body = { model: 'tiny-vision', ...asking('data:image/png;base64,AAAA') };
    const ask = (at: string) =>
      fetch(`${at}/v1/chat/completions`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(body),
      });
    const [through, direct] = [await ask(queue.url), await ask(worker.engineUrl)];
    expect([through.status, await through.json()]).toEqual([direct.status, await direct.json()]);
    expect(direct.status).toBe(400);
  });
});
