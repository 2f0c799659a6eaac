import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ensureSoundfile, ensureVllm } from '../../scripts/vllm/setup.ts';
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
import { tone } from './tone.ts';
import { make, startOverVllm } from './worker.ts';

/** Audio in chats over real vLLM, with a tiny Qwen2-Audio: what comes through is what vLLM itself answers. */
let queue: QueueProcess;
let worker: WorkerProcess;

beforeAll(async () => {
  const vllm = await ensureVllm();
  const PYTHONPATH = await ensureSoundfile(vllm);
  const model = join(stateFolder(), 'tiny-listener');
  make(vllm, 'make_tiny_listener.py', model);
  queue = await startQueue();
  worker = await startOverVllm(vllm, queue.url, {
    model,
    name: 'tiny-listener',
    env: { PYTHONPATH, LOAD_FORMAT: 'auto', MAX_MODEL_LEN: '2048' },
  });
});
afterAll(tearDown);

function asking(...clips: Buffer[]) {
  const parts = clips.map((clip) => ({
    type: 'input_audio',
    input_audio: { data: clip.toString('base64'), format: 'wav' },
  }));
  const content = [{ type: 'text', text: 'What do you hear?' }, ...parts];
  return {
    messages: [{ role: 'user', content }],
    max_tokens: 24,
    temperature: 0,
    ignore_eos: true,
    logprobs: true,
  };
}

function post(at: string, body: object): Promise<Response> {
  return fetch(`${at}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'tiny-listener', ...body }),
  });
}

interface Answer {
  choices: { message: { content: string }; logprobs: { content: { logprob: number }[] } }[];
  usage: { prompt_tokens: number };
}

/** What the model made of a clip shows in its first choice of a token. */
async function heard(at: string, body: object) {
  const answer = await post(at, body);
  const text = await answer.text();
  expect(answer.status, text).toBe(200);
  const { choices, usage } = JSON.parse(text) as Answer;
  return {
    text: choices[0]?.message.content,
    first: choices[0]?.logprobs.content[0]?.logprob,
    prompt: usage.prompt_tokens,
  };
}

const [LOW, HIGH] = [tone(440), tone(3000)];

describe('audio in chats over real vLLM', () => {
  it('is answered through the road as by the engine itself', async () => {
    for (const request of [asking(LOW), asking(HIGH)])
      expect(await heard(queue.url, request)).toEqual(await heard(worker.engineUrl, request));
  });

  it('reaches the model: another clip, another answer, and tokens of the prompt for it', async () => {
    const [none, low, high] = [
      await heard(queue.url, asking()),
      await heard(queue.url, asking(LOW)),
      await heard(queue.url, asking(HIGH)),
    ];
    expect(low.first).not.toBe(high.first);
    expect(low.prompt).toBeGreaterThan(none.prompt);
    expect(high.prompt).toBe(low.prompt);
  });

  it('is answered by a stream, which stays at its worker', async () => {
    const answer = await post(queue.url, { ...asking(LOW), stream: true });
    const said = [...(await answer.text()).matchAll(/"content":"((?:[^"\\]|\\.)*)"/g)];
    const text = said.map(([, content]) => JSON.parse(`"${content}"`)).join('');
    expect(text).toBe((await heard(worker.engineUrl, asking(LOW))).text);
  });

  it('of a stored job is answered alike', async () => {
    const direct = await heard(worker.engineUrl, asking(HIGH));
    const { id } = await submit(queue.url, chatJob(24, { payload: asking(HIGH) }));
    const { state, result } = await settled(queue.url, id);
    expect(state).toBe('succeeded');
    expect(JSON.stringify(result)).toContain(JSON.stringify(direct.text));
  });

  it('that is none has the engine’s own error', async () => {
    const none = asking(Buffer.from('no audio'));
    const [through, direct] = [await post(queue.url, none), await post(worker.engineUrl, none)];
    expect([through.status, await through.json()]).toEqual([direct.status, await direct.json()]);
    expect(direct.ok).toBe(false);
  });
});
