import { describe, expect, it } from 'vitest';
import WebSocket from 'ws';
import { REFUSED_FIRST } from '../support/raw-worker.ts';
import { startTestQueue } from '../support/test-queue.ts';
import { tokenEntry } from '../support/token-entry.ts';

/** What a token may ask for that would move its work before others', at the queue and at engines. */
const road = startTestQueue({
  TOKENS: JSON.stringify([
    tokenEntry('app', ['submit']),
    tokenEntry('urgent', ['submit'], { highest_priority: 10 }),
    tokenEntry('usual', ['submit'], { default_priority: 3, highest_priority: 5 }),
    tokenEntry('operator', ['admin']),
  ]),
});

async function post(token: string, path: string, body: unknown, more: Record<string, string> = {}) {
  const headers = { authorization: `Bearer ${token}`, ...more };
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  const response = await fetch(`${road.url}${path}`, { method: 'POST', headers, body: text });
  return { status: response.status, body: (await response.json()) as never };
}

const job = (more: object = {}, payload: object = { messages: [] }) => ({
  job_type: 'chat_completion',
  config_id: 'cfg',
  payload,
  ...more,
});
const DENIED = { error: { code: 'priority_denied' } };

describe('the priority of a job', () => {
  it.each([
    ['app', -5, 201],
    ['app', 0, 201],
    ['app', 1, 403],
    ['urgent', 10, 201],
    ['urgent', 11, 403],
    ['operator', 1000, 201],
  ])('%s asks for %d: %d', async (token, priority, status) => {
    const { status: told, body } = await post(token, '/api/jobs', job({ priority }));
    expect(told).toBe(status);
    expect(body).toMatchObject(status === 201 ? { priority } : DENIED);
  });

  it('is that of its token where it names none', async () => {
    for (const [token, priority] of [
      ['app', 0],
      ['usual', 3],
    ] as const)
      expect((await post(token, '/api/jobs', job())).body).toMatchObject({ priority });
  });

  it('is looked at for each of many jobs, whichever way they come', async () => {
    const jobs = [job({ priority: 1, id: 'no' }), job({ priority: 0, id: 'yes' })];
    const { body } = await post('app', '/api/jobs', jobs);
    expect(body).toMatchObject([DENIED, { job: { priority: 0 } }]);
    const headers = { authorization: 'Bearer app', 'content-type': 'application/x-ndjson' };
    const lines = jobs.map((one) => JSON.stringify(one)).join('\n');
    const answer = await fetch(`${road.url}/api/jobs`, { method: 'POST', headers, body: lines });
    expect(
      (await answer.text())
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line)),
    ).toMatchObject([DENIED, { job: { priority: 0 } }]);
    const socket = new WebSocket(`${road.url.replace('http', 'ws')}/api/jobs/socket`, {
      headers: { authorization: 'Bearer app' },
    });
    socket.once('open', () => socket.send(JSON.stringify({ type: 'submit', jobs })));
    const frame = await new Promise((done) => socket.once('message', (data) => done(String(data))));
    socket.terminate();
    expect(frame).toContain('priority_denied');
  });
});

describe('the priority at an engine', () => {
  it('is asked for by header or body only as far as the token allows', async () => {
    // A request that is let through finds nobody who serves its model.
    const ask = async (token: string, body: string, headers: Record<string, string> = {}) =>
      (await post(token, '/v1/chat/completions', body, { ...REFUSED_FIRST, ...headers })).status;
    const chat = (priority: string) => `{"model":"tiny","messages":[],"priority":${priority}}`;
    expect(await ask('app', chat('-1'))).toBe(403);
    expect(await ask('app', chat('"-1"'))).toBe(403);
    expect(await ask('app', `{"model":"tiny","messages":[],"prior\\u0069ty":-0.5}`)).toBe(403);
    expect(await ask('app', chat(`-1${'0'.repeat(100)}`))).toBe(403);
    expect(await ask('app', chat('0'), { 'x-vllm-priority': '-1' })).toBe(403);
    expect(await ask('urgent', chat('-11'))).toBe(403);
    for (const [token, priority] of [
      ['app', '0'],
      ['app', '7'],
      ['app', 'null'],
      ['urgent', '-10'],
    ] as const)
      expect(await ask(token, chat(priority))).toBe(404);
    expect(await ask('operator', chat('-1000'), { 'x-vllm-priority': '-1000' })).toBe(404);
  });

  it('is looked at in stored jobs of every form', async () => {
    const request = { method: 'POST', path: '/v1/completions', body: '{"prompt":"x"}' };
    const hasty = [
      job({}, { messages: [], priority: -1 }),
      job({ job_type: 'engine_request' }, { ...request, body: '{"prompt":"x","priority":-1}' }),
      job({ job_type: 'engine_request' }, { ...request, headers: { 'X-Vllm-Priority': '-1' } }),
      job(
        { job_type: 'engine_request' },
        { ...request, headers: { 'X-Vllm-Priority': '0', 'x-vllm-priority': '-1' } },
      ),
      job({ job_type: 'runpod' }, { input: { openai_input: '{"priority":-1}' } }),
      job(
        { job_type: 'runpod' },
        { input: { openai_route: '/v1/completions', openai_input: { priority: -1 } } },
      ),
    ];
    for (const one of hasty) {
      const { status, body } = await post('app', '/api/jobs', one);
      expect([400, 403]).toContain(status);
      expect(JSON.stringify(body)).toContain('lowest number goes first');
      expect((await post('operator', '/api/jobs', one)).status).toBe(201);
    }
    const { status } = await post('app', '/v2/cfg/run', { input: { prompt: 'x', priority: -1 } });
    expect(status).toBe(403);
  });
});
