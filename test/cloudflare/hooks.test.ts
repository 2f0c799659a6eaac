import { afterAll, beforeAll, expect, it } from 'vitest';
import type { JobView } from '../../src/protocol/index.ts';
import { type Asked, startHookReceiver } from '../support/hook-receiver.ts';
import { asks, settle } from '../support/played-answers.ts';
import { until } from '../support/poll.ts';
import { closeRawWorkers, RawWorker } from '../support/raw-worker.ts';
import { type QueueProcess, startQueue, tearDown } from '../support/road.ts';

/** A hook that the deployed queue asks: about a live stream, and about a stored result that waits for it. */

const TEXT = 'The word is SECRET.';
const HIDDEN = 'The word is ******.';
const CHAT = '/v1/chat/completions';
const body = { model: 'tiny', ...asks('chat', 'Hello') };

const hide = ({ text }: Asked) => ({
  action: 'replace',
  text: String(text).replaceAll('SECRET', '******'),
});
const receiver = await startHookReceiver(hide);

let queue: QueueProcess;
beforeAll(async () => {
  queue = await startQueue({
    env: {
      QUEUE_IDS: '*',
      QUEUE_HOOK_AFTER: `private:${receiver.url}/after`,
      // This process answers, which may stand still for a while.
      QUEUE_HOOK_SECONDS: '60',
      QUEUE_HOOK_SECRET: `whsec_${Buffer.alloc(32, 7).toString('base64')}`,
    },
  });
});
afterAll(async () => {
  closeRawWorkers();
  await tearDown();
  await receiver.stop();
});

function ask(path: string, asked?: object): Promise<Response> {
  const headers = { 'x-queue-id': 'q', 'content-type': 'application/json' };
  return fetch(queue.url + path, {
    headers,
    ...(asked && { method: 'POST', body: JSON.stringify(asked) }),
  });
}

it('sees a live stream, and a stored result once it is back', async () => {
  const worker = await (await new RawWorker(queue.url).connect('q')).register('w', { capacity: 4 });
  const stream = ask(CHAT, { ...body, stream: true });
  settle(worker, await worker.job(), 'chat', TEXT, true);
  const said = await (await stream).text();
  expect([...said.matchAll(/"content":"([^"]*)"/g)].map(([, piece]) => piece).join('')).toBe(HIDDEN);

  receiver.asked.length = 0;
  receiver.decide = () => 503;
  const payload = { method: 'POST', path: CHAT, body: JSON.stringify(body) };
  const { id } = (await (await ask('/api/jobs', { job_type: 'engine_request', payload })).json()) as {
    id: string;
  };
  settle(worker, await worker.job(1), 'chat', TEXT);
  await until(() => receiver.asked.length >= 2, 'the hook is asked again');
  receiver.decide = hide;
  const settled = await until(async () => {
    const job = (await (await ask(`/api/jobs/${id}?wait=20`)).json()) as JobView;
    return job.settled_at ? job : null;
  }, 'the job is settled');
  expect(settled).toMatchObject({ state: 'succeeded' });
  expect(JSON.stringify(settled)).toContain(HIDDEN);
});
