import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type PlayedQueue, playedQueue, ROADS } from '../support/every-road.ts';
import { type HookReceiver, startHookReceiver } from '../support/hook-receiver.ts';
import { filesWith } from '../support/on-disk.ts';
import { asks, settle } from '../support/played-answers.ts';
import { until } from '../support/poll.ts';
import { startTestQueue } from '../support/test-queue.ts';
import { tokenEntry } from '../support/token-entry.ts';

/** The queue keeps of a request what hooks left of it. */

/** A word which the hooks refuse. */
const REFUSED = 'FORBIDDEN';

let receiver: HookReceiver;
const bindings: Record<string, string> = {
  KEEP_REQUESTS: 'all',
  HOOK_SECRET: `whsec_${Buffer.alloc(32, 7).toString('base64')}`,
  HOOK_HOLD: '12',
  // The receiver is in this process, which may stand still.
  HOOK_SECONDS: '60',
  TOKENS: JSON.stringify([
    tokenEntry('app', ['submit'], { tenant: 'team' }),
    tokenEntry('worker', ['worker']),
    tokenEntry('operator', ['admin', 'read']),
  ]),
};

beforeAll(async () => {
  receiver = await startHookReceiver(({ stage, body, text }) => {
    const said = stage === 'before' ? JSON.stringify(body) : String(text);
    if (said.includes(REFUSED)) return { action: 'refuse', message: 'Not here.', code: 'policy' };
    const masked = said.replaceAll('NAME-OF-CALLER', 'MASK').replaceAll('WORD-OF-ENGINE', '******');
    if (masked === said) return { action: 'allow' };
    return stage === 'before'
      ? { action: 'replace', body: JSON.parse(masked) }
      : { action: 'replace', text: masked };
  });
  bindings.HOOK_BEFORE = `private:${receiver.url}/before`;
  bindings.HOOK_AFTER = `private:${receiver.url}/after`;
});
afterAll(() => receiver.stop());

const road = startTestQueue(bindings);
const CHAT = '/v1/chat/completions';
/** The roads on which a filter is called in another place each. */
const OFTEN = [
  'a live request',
  'a live stream',
  'a stored job',
  'the stream of a stored job',
  'a line of a batch',
];

async function recordsOf(queue: PlayedQueue): Promise<Record<string, unknown>[]> {
  const text = await (await queue.ask('/api/kept-requests/records', undefined, 'operator')).text();
  return text
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line) as Record<string, unknown>);
}

/** Waits for the only record of a queue. */
async function recordOf(queue: PlayedQueue): Promise<Record<string, unknown>> {
  const records = await until(async () => {
    const kept = await recordsOf(queue);
    return kept.length > 0 ? kept : null;
  }, 'it is kept');
  expect(records).toHaveLength(1);
  return records[0]!;
}

/** Returns the files of the databases of records that hold a text. */
function keptFilesWith(text: string): string[] {
  const kept = (what: string) =>
    filesWith(road.stateDir, what).filter((file) => file.includes('keptRequests'));
  expect(kept('').length).toBeGreaterThan(0);
  return kept(text);
}

describe('a request that hooks changed', () => {
  it.each(OFTEN)('is kept as they left it, on the road of %s', async (name) => {
    const queue = await playedQueue(road);
    const body = { model: 'tiny', ...asks('chat', 'I am NAME-OF-CALLER') };
    await ROADS[name]!(queue, CHAT, 'chat', body, 'They call it WORD-OF-ENGINE, and nothing else.');
    const record = await recordOf(queue);
    expect(JSON.stringify(record['gen_ai.input.messages'])).toContain('I am MASK');
    expect(JSON.stringify(record['gen_ai.output.messages'])).toContain('They call it ******, and');
    expect(JSON.stringify(record)).not.toMatch(/NAME-OF-CALLER|WORD-OF-ENGINE/);
  });

  it('leaves none of the words that they masked on the disk of the records', async () => {
    // The log of the database is written into it when the process ends.
    await road.restart(bindings);
    expect(keptFilesWith('I am MASK')).not.toEqual([]);
    expect(keptFilesWith('NAME-OF-CALLER')).toEqual([]);
    expect(keptFilesWith('WORD-OF-ENGINE')).toEqual([]);
  });
});

const chat = (text: string, more: object = {}) => ({ model: 'tiny', ...asks('chat', text), ...more });
const chatJob = (text: string, more: object = {}) => ({
  job_type: 'engine_request',
  payload: { method: 'POST', path: CHAT, body: JSON.stringify(chat(text)) },
  ...more,
});
const submitted = async (queue: PlayedQueue, job: object) =>
  ((await (await queue.ask('/api/jobs', job)).json()) as { id: string }).id;
const said = (code: string) => ({ error: expect.objectContaining({ code }) });

describe('a request that a hook refuses', () => {
  const refused = {
    'worker_vllm.outcome': 'refused',
    'error.type': 'policy',
    'http.response.status_code': 400,
    'worker_vllm.response.body': said('policy'),
    'worker_vllm.token': 'app',
  };

  it('is kept with the error, if its caller waits', async () => {
    const queue = await playedQueue(road);
    expect((await queue.ask(CHAT, chat(`It is ${REFUSED}`))).status).toBe(400);
    const record = await recordOf(queue);
    expect(record).toMatchObject({ ...refused, 'worker_vllm.road': 'live', 'url.path': CHAT });
    expect(JSON.stringify(record['gen_ai.input.messages'])).toContain(REFUSED);
  });

  it('is kept with the error, if its answer is refused', async () => {
    const queue = await playedQueue(road);
    const answer = queue.ask(CHAT, chat('Hello'));
    settle(queue.worker, await queue.worker.job(), 'chat', `It is ${REFUSED}`);
    expect((await answer).status).toBe(400);
    const record = await recordOf(queue);
    expect(record).toMatchObject({ ...refused, 'worker_vllm.worker.id': 'w' });
    expect(JSON.stringify(record)).not.toContain(REFUSED);
  });

  it('is kept as a submission, and leaves the record of the job whose id it bears', async () => {
    const queue = await playedQueue(road);
    const id = await submitted(queue, chatJob('Hello', { id: 'one' }));
    settle(queue.worker, await queue.worker.job(), 'chat', 'Good day.');
    await (await queue.ask(`/api/jobs/${id}?wait=20`)).text();
    expect((await queue.ask('/api/jobs', chatJob(`It is ${REFUSED}`, { id }))).status).toBe(400);
    const records = await until(async () => {
      const kept = await recordsOf(queue);
      return kept.length > 1 ? kept : null;
    }, 'both are kept');
    expect(records.map((record) => record['worker_vllm.outcome'])).toEqual(['succeeded', 'refused']);
    expect(records[1]).toMatchObject({
      ...refused,
      'worker_vllm.road': 'job',
      'worker_vllm.job.id': id,
      'worker_vllm.worker.id': null,
    });
  });

  it('is kept as a line of a batch', async () => {
    const queue = await playedQueue(road);
    const form = new FormData();
    const line = { custom_id: 'a', method: 'POST', url: CHAT, body: chat(`It is ${REFUSED}`) };
    form.set('purpose', 'batch');
    form.set('file', new Blob([JSON.stringify(line)]), 'in.jsonl');
    const headers = { authorization: 'Bearer app', 'x-queue-id': queue.id };
    const sent = await fetch(`${queue.url}/v1/files`, { method: 'POST', headers, body: form });
    const { id } = (await sent.json()) as { id: string };
    await queue.ask('/v1/batches', { input_file_id: id, endpoint: CHAT, completion_window: '24h' });
    expect(await recordOf(queue)).toMatchObject({ ...refused, 'worker_vllm.road': 'job' });
  });
});

describe('a request without an answer', () => {
  it('is kept with the error of its engine, if its caller waits', async () => {
    const queue = await playedQueue(road);
    const answer = queue.ask(CHAT, chat('Hello'));
    const { stream_id: stream, job_id, fence_token, account } = await queue.worker.job();
    const body = { error: { message: 'The prompt is too long.', code: 'too_long' } };
    const data = new TextEncoder().encode(JSON.stringify(body));
    const head = { status: 400, headers: { 'content-type': 'application/json' } };
    queue.worker.answer(
      { type: 'head', stream: stream!, head },
      { type: 'bytes', stream: stream!, offset: 0, data },
      { type: 'end', stream: stream!, size: data.byteLength },
    );
    const response = { status: 400, content_type: 'application/json', body };
    queue.worker.send({ type: 'job_result', job_id, fence_token, account, result: { response } });
    await (await answer).text();
    expect(await recordOf(queue)).toMatchObject({
      'worker_vllm.outcome': 'failed',
      'error.type': '400',
      'worker_vllm.response.body': said('too_long'),
    });
  });

  it.each([
    ['failed', 'engine_error'],
    ['cancelled', 'cancelled'],
    ['expired', 'deadline'],
  ])('is kept with its error, as a stored job that has %s', async (state, code) => {
    const queue = await playedQueue(road);
    const more = { max_attempts: 1, ...(state === 'expired' && { deadline_seconds: 1 }) };
    const id = await submitted(queue, chatJob('I am NAME-OF-CALLER', more));
    const { job_id, fence_token } = await queue.worker.job();
    if (state === 'failed')
      queue.worker.send({ type: 'job_error', job_id, fence_token, error: 'CUDA', code, retryable: false });
    if (state === 'cancelled')
      await fetch(`${queue.url}/api/jobs/${id}`, {
        method: 'DELETE',
        headers: { authorization: 'Bearer app', 'x-queue-id': queue.id },
      });
    const record = await recordOf(queue);
    expect(record).toMatchObject({
      'worker_vllm.outcome': state,
      'error.type': code,
      'worker_vllm.job.id': id,
      'worker_vllm.worker.id': 'w',
      'worker_vllm.road': 'job',
      'worker_vllm.response.body': said(code),
    });
    expect(JSON.stringify(record['gen_ai.input.messages'])).toContain('I am MASK');
  });

  it('is not kept, as a stored job that no worker had', async () => {
    const queue = await playedQueue(road);
    const more = { config_id: 'nobody', deadline_seconds: 1 };
    const id = await submitted(queue, chatJob('Hello', more));
    const job = (await (await queue.ask(`/api/jobs/${id}?wait=20`)).json()) as { state: string };
    expect(job.state).toBe('expired');
    expect(await recordsOf(queue)).toEqual([]);
  });
});
