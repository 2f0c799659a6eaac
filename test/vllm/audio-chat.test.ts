import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ensureSoundfile, ensureVllm, TINY_MODEL_VARIABLES } from '../../scripts/vllm/setup.ts';
import { until } from '../support/poll.ts';
import {
  chatJob,
  type QueueProcess,
  settled,
  startQueue,
  startWorker,
  stateFolder,
  submit,
  tearDown,
  untilReady,
  type WorkerProcess,
} from '../support/road.ts';
import { tone } from './tone.ts';

/** Audio in chats over real vLLM, with a tiny Qwen2-Audio: what comes through is what vLLM itself answers. */
let queue: QueueProcess;
let worker: WorkerProcess;

beforeAll(async () => {
  const vllm = await ensureVllm();
  const PYTHONPATH = await ensureSoundfile(vllm);
  const model = join(stateFolder(), 'tiny-listener');
  const script = fileURLToPath(new URL('../../scripts/vllm/make_tiny_listener.py', import.meta.url));
  const made = spawnSync(vllm.python, [script, model], { encoding: 'utf8' });
  if (made.status !== 0) throw new Error(made.stderr);
  queue = await startQueue();
  worker = await startWorker(queue.url, 'listener', {
    env: {
      ...vllm.env,
      PYTHONPATH,
      ENGINE: 'vllm',
      VLLM_MODEL: model,
      ...TINY_MODEL_VARIABLES,
      LOAD_FORMAT: 'auto',
      MAX_MODEL_LEN: '2048',
      SERVED_MODEL_NAME: 'tiny-listener',
      VLLM_SERVE_COMMAND: vllm.vllmCommand,
      VLLM_STARTUP_TIMEOUT: '560',
    },
  });
  await until(
    async () => worker.process.output().includes('taking jobs') && (await untilReady(queue.url, 'listener')),
    'the worker takes jobs',
    { timeoutMs: 560_000 },
  );
}, 600_000);
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
