import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { until } from '../support/poll.ts';
import { type RunningProxy, startHaproxy, startNginx, whyNoProxies } from '../support/real-proxies.ts';
import {
  engineRunning,
  type QueueProcess,
  readyWorker,
  startQueue,
  submit,
  tearDown,
  type WorkerProcess,
} from '../support/road.ts';

/** A queue behind nginx with its default settings, and under the eyes of HAProxy. */
const why = whyNoProxies();
if (why) console.warn(`test/road/behind-proxies.test.ts is skipped: ${why}`);

let queue: QueueProcess;
let worker: WorkerProcess;
let nginx: RunningProxy;
let url: string;

beforeAll(async () => {
  if (why) return;
  queue = await startQueue();
  nginx = await startNginx(queue.port);
  url = `http://127.0.0.1:${nginx.port}`;
  // Whole answers are shorter than nginx' buffers, and take longer than any test needs to see their beginning.
  const engineArgs = '--inter-token-latency-ms 1000';
  // Its sockets go through nginx too.
  worker = await readyWorker(url, 'w', { engineArgs, env: { CASOLA_MAX_JOBS: '1' } });
});
afterAll(tearDown);

const streamed = (path: string, init: RequestInit = {}) => {
  const leave = new AbortController();
  const response = fetch(`${url}${path}`, { ...init, signal: leave.signal });
  return { response, leave: () => leave.abort() };
};
const chat = (words: number) => ({
  method: 'POST',
  body: JSON.stringify({
    model: 'tiny',
    stream: true,
    messages: [{ role: 'user', content: 'Tell me something.' }],
    max_tokens: words,
    ignore_eos: true,
  }),
});

/** Reads until a piece says this. */
async function reads(response: Promise<Response>, text: string): Promise<Headers> {
  const { headers, body } = await response;
  const reader = body!.pipeThrough(new TextDecoderStream()).getReader();
  for (let heard = ''; !heard.includes(text); ) {
    const { done, value } = await reader.read();
    if (done) throw new Error(`the stream ended without ${text}: ${heard}`);
    heard += value;
  }
  return headers;
}

describe.skipIf(why !== null)('nginx with its default settings', () => {
  it('passes the beginning of a stream on while the engine goes on', async () => {
    const caller = streamed('/v1/chat/completions', chat(12));
    const headers = await reads(caller.response, 'data: {');
    expect(await engineRunning(worker.engineUrl)).toBe(1);
    expect(headers.get('cache-control')).toBe('no-cache');
    caller.leave();
    await until(async () => (await engineRunning(worker.engineUrl)) === 0, 'the engine is free again');
  });

  it('passes on what callers are told while they wait, and blanks before JSON', async () => {
    const running = streamed('/v1/chat/completions', chat(200));
    await reads(running.response, 'data: {');
    const waiting = streamed('/v1/chat/completions', chat(1));
    await reads(waiting.response, ': ');
    const { stream: _, ...plain } = JSON.parse(chat(1).body);
    const whole = streamed('/v1/chat/completions', { method: 'POST', body: JSON.stringify(plain) });
    await reads(whole.response, '\n');
    expect(await engineRunning(worker.engineUrl)).toBe(1);
    for (const caller of [running, waiting, whole]) caller.leave();
    await until(async () => (await engineRunning(worker.engineUrl)) === 0, 'the engine is free again');
  });

  it('passes on the stream of a stored job as it comes', async () => {
    const { id } = await submit(url, {
      job_type: 'engine_request',
      config_id: 'cfg',
      stream: true,
      payload: { path: '/v1/chat/completions', body: chat(200).body },
    });
    const stream = streamed(`/api/jobs/${id}/stream`);
    await reads(stream.response, 'data: {');
    expect(await engineRunning(worker.engineUrl)).toBe(1);
    stream.leave();
    await fetch(`${url}/api/jobs/${id}`, { method: 'DELETE' });
    await until(async () => (await engineRunning(worker.engineUrl)) === 0, 'the engine is free again');
  });
});

describe.skipIf(why !== null)('HAProxy', () => {
  it('finds the queue up by the check that docs/deploying.md gives', async () => {
    const haproxy = await startHaproxy(queue.port, ['option httpchk GET /health']);
    await until(() => haproxy.process.output().includes('reason: Layer7 check passed'), 'the check passes');
    expect((await fetch(`http://127.0.0.1:${haproxy.port}/health`)).status).toBe(200);
  });
});
