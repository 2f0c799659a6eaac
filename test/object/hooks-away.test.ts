import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { type PlayedQueue, playedQueue, ROADS } from '../support/every-road.ts';
import { type Asked, type HookReceiver, startHookReceiver } from '../support/hook-receiver.ts';
import { asks, settle } from '../support/played-answers.ts';
import { until } from '../support/poll.ts';
import { RawWorker } from '../support/raw-worker.ts';
import { startTestQueue } from '../support/test-queue.ts';
import { tokenEntry } from '../support/token-entry.ts';

/** Results and requests while the hook that is to see them is away. */

let receiver: HookReceiver;
const bindings: Record<string, string> = {
  HOOK_SECRET: `whsec_${Buffer.alloc(32, 7).toString('base64')}`,
  HOOK_SECONDS: '1',
  TOKENS: JSON.stringify([
    tokenEntry('app', ['submit'], { tenant: 'team' }),
    tokenEntry('worker', ['worker']),
    tokenEntry('operator', ['admin', 'read']),
  ]),
};

const hide = ({ text }: Asked) => ({ action: 'replace', text: String(text).replaceAll('SECRET', '******') });

beforeAll(async () => {
  receiver = await startHookReceiver(hide);
  bindings.HOOK_AFTER = `private:${receiver.url}/after`;
});
afterAll(() => receiver.stop());
beforeEach(() => {
  receiver.asked.length = 0;
  receiver.decide = hide;
});

const road = startTestQueue(bindings);

const CHAT = '/v1/chat/completions';
const TEXT = 'The word is SECRET.';
const body = { model: 'tiny', ...asks('chat', 'Hello') };

async function submitted({ ask }: PlayedQueue): Promise<string> {
  const payload = { method: 'POST', path: CHAT, body: JSON.stringify(body) };
  const answer = await ask('/api/jobs', { job_type: 'engine_request', payload });
  return ((await answer.json()) as { id: string }).id;
}

async function backgroundResponse({ worker, ask }: PlayedQueue): Promise<string> {
  const asked = { model: 'tiny', input: 'Hello', background: true };
  const { id } = (await (await ask('/v1/responses', asked)).json()) as { id: string };
  settle(worker, await worker.job(), 'response', TEXT);
  return await until(async () => {
    const text = await (await ask(`/v1/responses/${id}`)).text();
    return text.includes('"status":"completed"') ? text : null;
  }, 'the response is completed');
}

it('costs no result of a stored job, a line of a batch and a response in the background', async () => {
  const queues = [await playedQueue(road), await playedQueue(road), await playedQueue(road)] as const;
  receiver.decide = () => 503;
  const settled = Promise.all([
    ROADS['a stored job']!(queues[0], CHAT, 'chat', body, TEXT),
    ROADS['a line of a batch']!(queues[1], CHAT, 'chat', body, TEXT),
    backgroundResponse(queues[2]),
  ]);
  const timesAsked = (queue: PlayedQueue) =>
    receiver.asked.filter((asked) => asked.queue === queue.id).length;
  await until(() => queues.every((queue) => timesAsked(queue) >= 2), 'the hook is asked again about each');
  receiver.decide = hide;
  for (const said of await settled) {
    expect(said).toContain('The word is ******.');
    expect(said).not.toContain('SECRET');
  }
});

it('costs no result over the end of the queue and of connections', async () => {
  const queue = await playedQueue(road);
  const id = await submitted(queue);
  const { stream_id: _, ...job } = await queue.worker.job();
  receiver.decide = () => 503;
  settle(queue.worker, job, 'chat', TEXT);
  await until(() => receiver.asked.length > 0, 'the hook is asked');
  await road.killAndRestart();
  receiver.asked.length = 0;
  const jobs = [{ job_id: job.job_id, fence_token: job.fence_token }];
  const sendAgain = async () => {
    const worker = await (await new RawWorker(road.url, 'worker').connect(queue.id)).register('w', { jobs });
    settle(worker, job, 'chat', TEXT);
    return worker;
  };
  const again = await sendAgain();
  await until(() => receiver.asked.length > 0, 'the next queue asks the hook');
  again.vanish();
  await sendAgain();
  receiver.decide = hide;
  const settled = await (await queue.ask(`/api/jobs/${id}?wait=20`)).json();
  expect(settled).toMatchObject({ state: 'succeeded', attempts: 1 });
  expect(JSON.stringify(settled)).toContain('The word is ******.');
});

it('is told: in the ledger of a job that waits, to a live caller, and in the metrics', async () => {
  const queue = await playedQueue(road);
  const { worker, ask } = queue;
  const id = await submitted(queue);
  const job = await worker.job();
  receiver.decide = () => null;
  settle(worker, job, 'chat', TEXT);
  const notes = await until(async () => {
    const { steps } = (await (await ask(`/api/jobs/${id}/ledger`)).json()) as {
      steps: { step: string; detail: string }[];
    };
    const noted = steps.filter(({ step }) => step === 'noted').map(({ detail }) => detail);
    return noted.length > 1 ? noted : null;
  }, 'the ledger says that the result waits');
  const failed = 'the hook after failed: no answer within 1 s; the answer was kept back';
  expect(notes).toEqual([expect.stringContaining(failed), 'the result waits, for at most 120 s']);
  const live = ask(CHAT, body);
  settle(worker, await worker.job(1), 'chat', TEXT);
  expect([(await live).status, await (await live).text()]).toEqual([
    503,
    expect.stringContaining('hook_failed'),
  ]);
  const metrics = await (await ask('/metrics', undefined, 'operator')).text();
  expect(metrics).toMatch(/worker_vllm_hook_calls_total\{stage="after",outcome="failure"\} [1-9]/);
  // A job that is cancelled waits no more.
  const headers = { authorization: 'Bearer app', 'x-queue-id': queue.id };
  await fetch(`${queue.url}/api/jobs/${id}`, { method: 'DELETE', headers });
  expect(await (await ask(`/api/jobs/${id}?wait=20`)).json()).toMatchObject({ state: 'cancelled' });
});
