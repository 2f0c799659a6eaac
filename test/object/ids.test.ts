import { toFile } from 'openai';
import { afterEach, describe, expect, it } from 'vitest';
import WebSocket from 'ws';
import { FEATURE_ROUTES } from '../../src/features/index.ts';
import { createApp } from '../../src/gateway/app.ts';
import { PASSED_THROUGH } from '../../src/gateway/routes/inference.ts';
import { placeOf, tagOf } from '../../src/protocol/ids.ts';
import { until } from '../support/poll.ts';
import type { JobFrame, RawWorker } from '../support/raw-worker.ts';
import { startTestQueue } from '../support/test-queue.ts';

/** The ids that a real queue hands out, by every route that makes one. */
const road = startTestQueue();
const queue = road.queue;
const timers: NodeJS.Timeout[] = [];
afterEach(() => {
  for (const timer of timers.splice(0)) clearInterval(timer);
});

/** A queue id of its own, its worker, which answers each job with an empty object, and requests to it. */
async function atWork() {
  const { id, worker } = queue();
  const played: RawWorker = await worker('w', { capacity: 8 });
  let answered = 0;
  timers.push(
    setInterval(() => {
      const jobs = played.messages.flat().filter(({ type }) => type === 'job') as JobFrame[];
      for (const job of jobs.slice(answered)) {
        if (job.stream_id !== undefined) played.answerJson(job);
        played.result(job);
      }
      answered = jobs.length;
    }, 20),
  );
  const ask = (method: string, path: string, body?: string | FormData, more: Record<string, string> = {}) =>
    fetch(`${road.url}${path}`, { method, headers: { 'x-queue-id': id, ...more }, body });
  const json = async (method: string, path: string, value: unknown) => {
    const response = await ask(method, path, JSON.stringify(value), { 'content-type': 'application/json' });
    return { response, body: JSON.parse(await response.text()) };
  };
  return { id, ask, json };
}

type AtWork = Awaited<ReturnType<typeof atWork>>;

const CHAT = { model: 'tiny', messages: [{ role: 'user', content: 'Hi' }] };
const JOB = { job_type: 'chat_completion', config_id: 'cfg', payload: CHAT };
const LINE = { custom_id: 'a', method: 'POST', url: '/v1/chat/completions', body: CHAT };

const jobIdOf = (response: Response) => response.headers.get('x-job-id');

async function upload({ ask }: AtWork): Promise<string> {
  const form = new FormData();
  form.set('purpose', 'batch');
  form.set('file', await toFile(new TextEncoder().encode(JSON.stringify(LINE)), 'in.jsonl'));
  return ((await (await ask('POST', '/v1/files', form)).json()) as { id: string }).id;
}

/** Opens the socket for responses and says that one frame only prepares. @returns the id of its response */
function warmUp({ id }: AtWork): Promise<string> {
  const socket = new WebSocket(`${road.url.replace('http', 'ws')}/v1/responses`, {
    headers: { 'x-queue-id': id },
  });
  return new Promise((done, failed) => {
    socket.on('error', failed);
    socket.on('open', () =>
      socket.send(JSON.stringify({ type: 'response.create', model: 'tiny', input: 'a', generate: false })),
    );
    socket.on('message', (data) => {
      done(JSON.parse(String(data)).response.id);
      socket.terminate();
    });
  });
}

/** The ids that a route makes, as its caller gets them; engines' routes are below. */
const MAKERS: Record<string, (at: AtWork) => Promise<unknown[]>> = {
  'POST /api/jobs': async ({ ask, json }) => {
    const one = await json('POST', '/api/jobs', JOB);
    const long = { ...JOB, payload: { ...CHAT, text: 'a'.repeat(300_000) } };
    const some = await json('POST', '/api/jobs', [JOB, long]);
    const lines = await ask('POST', '/api/jobs', JSON.stringify(JOB), {
      'content-type': 'application/x-ndjson',
    });
    const { job } = JSON.parse(await lines.text());
    return [one.body.id, ...some.body.map((each: { job: { id: string } }) => each.job.id), job.id];
  },
  'POST /v1/files': async (at) => {
    const bare = await at.ask('POST', '/v1/files?purpose=user_data', 'a', {
      'content-type': 'application/jsonl',
    });
    return [await upload(at), ((await bare.json()) as { id: string }).id];
  },
  'POST /v1/batches': async (at) => {
    const asked = {
      input_file_id: await upload(at),
      endpoint: '/v1/chat/completions',
      completion_window: '24h',
    };
    const { id } = (await at.json('POST', '/v1/batches', asked)).body;
    const ended = await until(
      async () => {
        const batch = (await at.json('GET', `/v1/batches/${id}`, undefined)).body;
        return batch.output_file_id ?? batch.error_file_id;
      },
      'the batch has written a file',
      { timeoutMs: 100_000 },
    );
    const { jobs } = (await at.json('GET', '/api/jobs', undefined)).body;
    return [id, ended, jobs[0].id];
  },
  'POST /v1/responses': async (at) => {
    const whole = await at.json('POST', '/v1/responses', { model: 'tiny', input: 'a', store: true });
    const asked = { model: 'tiny', input: 'a', background: true, store: true };
    const begun = await at.json('POST', '/v1/responses', asked);
    return [jobIdOf(whole.response), begun.body.id, jobIdOf(begun.response), await warmUp(at)];
  },
  'POST /v1/responses/input_tokens': async ({ json }) => {
    const asked = await json('POST', '/v1/responses/input_tokens', { model: 'tiny', input: 'a' });
    // The engine answers, and counts nothing.
    expect([asked.response.status, asked.body.error.code]).toEqual([501, 'not_supported']);
    return await until(async () => {
      const { requests } = (await json('GET', '/api/requests', undefined)).body;
      return requests.length > 0 && requests.map(({ id }: { id: string }) => id);
    }, 'the request for the engine is listed');
  },
  'POST /v1/conversations': async ({ json }) => [(await json('POST', '/v1/conversations', {})).body.id],
  'POST /v2/:endpoint/run': async ({ json }) => [
    (await json('POST', '/v2/cfg/run', { input: { prompt: 'a' } })).body.id,
  ],
  'POST /v2/:endpoint/runsync': async ({ json }) => [
    (await json('POST', '/v2/cfg/runsync', { input: { prompt: 'a' } })).body.id,
  ],
};

/**
 * Routes that make nothing that its caller asks for later, that name it by a name that somebody chose, or that make a
 * mute, which only the lists of its queue name.
 */
const MAKE_NONE = new RegExp(
  [
    '/api/(?:session(?:/oidc)?|alerts/.*|heartbeats|logs|metrics|tokens.*|fleet/.*|launchers/.*)',
    '/api/jobs/(?:cancel|retry|:id/retry)',
    '/v1/(?:batches|responses)/:id/cancel',
    // Items are found through their conversation.
    '/v1/conversations/:id(?:/items)?',
    '/v2/:endpoint/(?:status|stream|cancel|retry)/:id',
    '/v2/:endpoint/purge-queue',
  ]
    .map((path) => `^POST ${path}$`)
    .join('|'),
);

const rows = createApp(FEATURE_ROUTES).rows.filter(({ method }) => method === 'POST');
const names = rows.map(({ method, path }) => `${method} ${path}`);
const engines = new Set(PASSED_THROUGH.map(({ method, path }) => `${method} ${path}`));
const own = names.filter((name) => !MAKE_NONE.test(name) && (name in MAKERS || !engines.has(name)));

describe('each id says its queue and the generation of the layout', () => {
  it.each(own)('%s', async (name) => {
    const at = await atWork();
    const ids = await MAKERS[name]!(at);
    expect(ids).not.toEqual([]);
    for (const id of ids) {
      expect([id, placeOf(String(id))]).toEqual([id, { generation: 1, tag: tagOf(at.id) }]);
    }
  });

  it('those of requests that pass through to engines', async () => {
    const at = await atWork();
    const passed = names.filter((name) => engines.has(name) && !own.includes(name));
    expect(passed.length).toBeGreaterThan(20);
    for (const name of passed) {
      const { response } = await at.json('POST', name.slice('POST '.length), CHAT);
      expect([name, placeOf(jobIdOf(response) ?? '')]).toEqual([name, { generation: 1, tag: tagOf(at.id) }]);
      expect([name, response.headers.get('x-request-id')]).toEqual([name, jobIdOf(response)]);
    }
  });
});
