import { afterAll, beforeAll, expect, it } from 'vitest';
import { withoutComments } from '../support/comments.ts';
import { FaultyProxy } from '../support/faulty-proxy.ts';
import { until } from '../support/poll.ts';
import {
  HELD,
  job,
  type QueueProcess,
  readyWorker,
  setPace,
  settled,
  startQueue,
  submit,
  tearDown,
  type WorkerProcess,
} from '../support/road.ts';

/** Stored jobs that stream, over the road as its users start it. */
let queue: QueueProcess;
let worker: WorkerProcess;
/** Between worker and queue. */
let network: FaultyProxy;

beforeAll(async () => {
  // A worker that is slow to dial again keeps its job.
  queue = await startQueue({ env: { QUEUE_RECONNECT_GRACE_SECONDS: '60' } });
  network = await new FaultyProxy(queue.port, Math.random).listen();
  worker = await readyWorker(queue.url, 'w', {
    engineArgs: HELD,
    env: { CASOLA_WS_URL: `ws://127.0.0.1:${network.port}` },
  });
});
afterAll(async () => {
  await tearDown();
  await network.close();
});

const streaming = (maxTokens: number) => ({
  job_type: 'engine_request',
  config_id: 'cfg',
  stream: true,
  payload: {
    path: '/v1/chat/completions',
    body: JSON.stringify({
      model: 'default',
      messages: [{ role: 'user', content: 'Tell me something.' }],
      max_tokens: maxTokens,
      ignore_eos: true,
      stream: true,
    }),
  },
});

const watch = (id: string) => fetch(`${queue.url}/api/jobs/${id}/stream`);

async function storedBody(id: string): Promise<string> {
  const view = await settled(queue.url, id);
  expect(view).toMatchObject({ state: 'succeeded', attempts: 1, stream: true });
  return (view.result as { response: { body: string } }).response.body;
}

it('two who watch, one of them late, and the stored result have the same answer', async () => {
  const { id } = await submit(queue.url, streaming(60));
  const early = await watch(id);
  expect(early.headers.get('content-type')).toMatch(/^text\/event-stream/);
  const leaves = (await watch(id)).body!.getReader();
  await leaves.read();
  await leaves.cancel();
  const late = await watch(id);
  expect((await job(queue.url, id)).state).toBe('leased');
  await setPace(worker.engineUrl, 10);
  const [first, second, stored] = await Promise.all([early.text(), late.text(), storedBody(id)]);
  expect(withoutComments(first)).toBe(stored);
  expect(withoutComments(second)).toBe(stored);
  expect(stored).toMatch(/data: \[DONE\]\n\n$/);
  const after = await watch(id);
  expect([after.status, after.headers.get('content-type'), await after.text()]).toEqual([
    200,
    early.headers.get('content-type'),
    stored,
  ]);
});

it('connections that break in the middle cost neither the job nor those who watch anything', async () => {
  await setPace(worker.engineUrl, 2000);
  const { id } = await submit(queue.url, streaming(60));
  const watching = await watch(id);
  network.cut();
  await setPace(worker.engineUrl, 10);
  const [live, stored] = await Promise.all([watching.text(), storedBody(id)]);
  expect(withoutComments(live)).toBe(stored);
});

it('nobody has to watch', async () => {
  const { id } = await submit(queue.url, streaming(5));
  const stored = await storedBody(id);
  await until(async () => (await (await watch(id)).text()) === stored, 'the stored result is told');
});
