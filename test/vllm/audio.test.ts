import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ensureSoundfile, ensureVllm } from '../../scripts/vllm/setup.ts';
import {
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

/** Audio over real vLLM, with a tiny Whisper: what comes through is what vLLM itself answers. */
let queue: QueueProcess;
let worker: WorkerProcess;

beforeAll(async () => {
  const vllm = await ensureVllm();
  const PYTHONPATH = await ensureSoundfile(vllm);
  const model = join(stateFolder(), 'tiny-whisper');
  make(vllm, 'make_tiny_whisper.py', model);
  queue = await startQueue();
  worker = await startOverVllm(vllm, queue.url, {
    model,
    name: 'tiny-whisper',
    env: { PYTHONPATH, LOAD_FORMAT: 'auto' },
  });
});
afterAll(tearDown);

/** Greedy, so that the same audio has the same text. */
const FIELDS = { model: 'tiny-whisper', language: 'en', temperature: '0', max_completion_tokens: '12' };

function formOf(audio: Buffer, more: Record<string, string> = {}): FormData {
  const form = new FormData();
  for (const [name, value] of Object.entries({ ...FIELDS, ...more })) form.set(name, value);
  form.set('file', new File([new Uint8Array(audio)], 'tone.wav', { type: 'audio/wav' }));
  return form;
}

async function transcribed(at: string, audio: Buffer, more: Record<string, string> = {}) {
  const body = formOf(audio, more);
  const answer = await fetch(`${at}/v1/audio/transcriptions`, { method: 'POST', body });
  return { status: answer.status, type: answer.headers.get('content-type'), body: await answer.text() };
}

const textOf = ({ body }: { body: string }) => (JSON.parse(body) as { text: string }).text;

/** What is said in a stream; ids and times differ from one request to the next. */
const saidIn = ({ body }: { body: string }) =>
  [...body.matchAll(/"content":"((?:[^"\\]|\\.)*)"/g)].map(([, content]) => content).join('');

const [LOW, HIGH] = [tone(440), tone(3000)];

describe('audio over real vLLM', () => {
  it('is answered through the road as by the engine itself, and heard', async () => {
    const [low, high] = [await transcribed(queue.url, LOW), await transcribed(queue.url, HIGH)];
    expect(low.status, low.body).toBe(200);
    expect(low).toEqual(await transcribed(worker.engineUrl, LOW));
    expect(high).toEqual(await transcribed(worker.engineUrl, HIGH));
    expect(textOf(low)).not.toBe(textOf(high));
  });

  it('is answered by a stream', async () => {
    const through = await transcribed(queue.url, LOW, { stream: 'true' });
    expect(through.type).toMatch(/^text\/event-stream/);
    expect(through.body).toMatch(/data: \[DONE\]\s*$/);
    expect(saidIn(through)).toBe(saidIn(await transcribed(worker.engineUrl, LOW, { stream: 'true' })));
    expect(saidIn(through)).not.toBe('');
  });

  it('that is none is the engine’s 400', async () => {
    const none = Buffer.from('no audio');
    const through = await transcribed(queue.url, none);
    expect(through).toEqual(await transcribed(worker.engineUrl, none));
    expect(through.status).toBe(400);
  });

  it('of a stored job is answered alike', async () => {
    const request = new Request('http://engine', { method: 'POST', body: formOf(LOW) });
    const payload = {
      method: 'POST',
      path: '/v1/audio/transcriptions',
      content_type: request.headers.get('content-type'),
      body_base64: Buffer.from(await request.arrayBuffer()).toString('base64'),
    };
    const { id } = await submit(queue.url, { job_type: 'engine_request', config_id: 'cfg', payload });
    const { state, result } = await settled(queue.url, id);
    expect(state).toBe('succeeded');
    const text = textOf(await transcribed(worker.engineUrl, LOW));
    expect(result).toMatchObject({ response: { body: { text } } });
  });
});
