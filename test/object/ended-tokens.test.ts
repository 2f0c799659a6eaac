import { beforeEach, describe, expect, it } from 'vitest';
import WebSocket from 'ws';
import { type NewToken, PING_TEXT } from '../../src/protocol/index.ts';
import { until } from '../support/poll.ts';
import { bytes, EVENT_STREAM, type JobFrame, RawWorker } from '../support/raw-worker.ts';
import { startTestQueue } from '../support/test-queue.ts';
import { tokenEntry } from '../support/token-entry.ts';

/** What ends with a token that is revoked, rotated, changed or over, in a real queue; and what goes on. */

const road = startTestQueue({
  TOKENS: JSON.stringify([tokenEntry('operator', ['admin']), tokenEntry('serves', ['worker'])]),
});

/** Another one for each test. */
let queueId = '';
beforeEach(() => {
  queueId = road.newQueue();
});

const ask = (method: string, path: string, body?: object, token = 'operator') =>
  fetch(`${road.url}${path}`, {
    method,
    headers: {
      authorization: `Bearer ${token}`,
      'content-type': 'application/json',
      'x-queue-id': queueId,
    },
    ...(body && { body: JSON.stringify(body) }),
  });

async function make(name: string, scopes: string[], more: object = {}): Promise<string> {
  const made = await ask('POST', '/api/tokens', { name, scopes, ...more });
  expect(made.status).toBe(201);
  return ((await made.json()) as NewToken).token;
}

const chat = (token: string) =>
  ask('POST', '/v1/chat/completions', { model: 'tiny', messages: [], stream: true }, token);

function begin(worker: RawWorker, { stream_id }: JobFrame, text: string): void {
  const stream = stream_id!;
  worker.answer(
    { type: 'head', stream, head: EVENT_STREAM },
    { type: 'bytes', stream, offset: 0, data: bytes(text) },
  );
}

/** Reads a body as it comes. */
function read(response: Response): { text: string; isOver: boolean } {
  const seen = { text: '', isOver: false };
  const reading = async () => {
    for await (const piece of response.body!.pipeThrough(new TextDecoderStream())) seen.text += piece;
  };
  void reading()
    .catch(() => {})
    .finally(() => {
      seen.isOver = true;
    });
  return seen;
}

/** Its other end's close frame is enough: the connection below it may stay for a while. */
async function socket(path: string, token: string): Promise<{ readonly isClosed: boolean; ws: WebSocket }> {
  const headers = { authorization: `Bearer ${token}`, 'x-queue-id': queueId };
  const ws = new WebSocket(`${road.url.replace('http', 'ws')}${path}`, { headers });
  await new Promise((done, failed) => ws.once('open', done).once('error', failed));
  return {
    get isClosed() {
      return ws.readyState !== WebSocket.OPEN;
    },
    ws,
  };
}

const EVENT = 'data: {"choices":[{"delta":{"content":"a"}}]}\n\n';

describe.each(['revoked', 'rotated'] as const)('a token that is %s', (how) => {
  it('ends its own streams and waits, while those of others go on', async () => {
    const name = `caller-${how}`;
    const [mine, theirs] = [await make(name, ['submit']), await make(`other-${how}`, ['submit'])];
    const worker = await (await new RawWorker(road.url, 'serves').connect(queueId)).register(how, {
      capacity: 2,
    });
    const asked = [chat(mine), chat(theirs)];
    const jobs = [await worker.job(0), await worker.job(1)];
    for (const job of jobs) begin(worker, job, EVENT);
    const answers = await Promise.all(asked);
    expect(answers.map(({ status }) => status)).toEqual([200, 200]);
    const [ending, going] = answers.map(read) as [{ text: string; isOver: boolean }, never];
    const others: { text: string; isOver: boolean } = going;
    await until(() => ending.text.includes('"a"') && others.text.includes('"a"'), 'both have begun');
    const stored = await ask(
      'POST',
      '/api/jobs',
      { job_type: 'chat_completion', config_id: 'cfg', id: how, payload: { messages: [] } },
      mine,
    );
    expect(stored.status).toBe(201);
    const polled = ask('GET', `/api/jobs/${how}?wait=300`, undefined, mine).then((answer) => answer.text());
    const program = await socket('/api/jobs/socket', mine);
    const path =
      how === 'revoked' ? ['DELETE', `/api/tokens/${name}`] : ['POST', `/api/tokens/${name}/rotate`];
    expect((await ask(path[0]!, path[1]!)).status).toBe(200);

    await until(() => ending.isOver, 'its stream ends');
    expect(ending.text).toContain('was revoked or rotated while this request ran');
    // The response of a long poll has begun with blanks, and is broken off after the error.
    expect(await polled.catch((error: Error) => error.message)).toMatch(/token_unknown|terminated/);
    await until(() => program.isClosed, 'the socket of its program is closed');
    expect(others.isOver).toBe(false);
    expect([worker.closed, worker.answersClosed]).toEqual([null, null]);
    const { job_id: ended } = await worker.next('job_revoked');
    const stream = jobs.find(({ job_id }) => job_id !== ended)!.stream_id!;
    const rest = bytes('data: [DONE]\n\n');
    worker.answer(
      { type: 'bytes', stream, offset: EVENT.length, data: rest },
      { type: 'end', stream, size: EVENT.length + rest.length },
    );
    await until(() => others.isOver, 'the stream of the other tenant ends');
    // On a busy machine the stream is silent for long enough to get comments (relay/keep-alive.ts).
    expect(others.text.replaceAll(/^:.*\n\n/gm, '')).toBe(`${EVENT}data: [DONE]\n\n`);
    // What is stored goes on.
    expect(await (await ask('GET', `/api/jobs/${how}`)).json()).not.toMatchObject({ state: 'cancelled' });
    worker.vanish();
  });

  it('closes its workers and viewers, and no others', async () => {
    const name = `operator-${how}`;
    const token = await make(name, ['worker', 'read']);
    const mine = await (await new RawWorker(road.url, token).connect(queueId)).register(`mine-${how}`);
    const others = await (await new RawWorker(road.url, 'serves').connect(queueId)).register(`theirs-${how}`);
    const [viewer, admin] = [
      await socket('/api/fleet/live', token),
      await socket('/api/fleet/live', 'operator'),
    ];
    const path =
      how === 'revoked' ? ['DELETE', `/api/tokens/${name}`] : ['POST', `/api/tokens/${name}/rotate`];
    expect((await ask(path[0]!, path[1]!)).status).toBe(200);
    await until(
      () => mine.closed !== null && mine.answersClosed !== null,
      'both sockets of its worker are closed',
    );
    await until(() => viewer.isClosed, 'its viewer is closed');
    expect(mine.closed).toBe(1012);
    expect([others.closed, others.answersClosed, admin.isClosed]).toEqual([null, null, false]);
    admin.ws.close();
    others.vanish();
  });
});

it.each([{ worker_id: 'another' }, { models: ['tiny'] }, { expires_at: '2199-01-01T00:00:00Z' }])(
  'a worker and a viewer whose token is changed to %j show it again',
  async (changes) => {
    const name = `changed-${Object.keys(changes)[0]}`;
    const token = await make(name, ['worker', 'read']);
    const worker = await (await new RawWorker(road.url, token).connect(queueId)).register(name);
    const viewer = await socket('/api/fleet/live', token);
    expect((await ask('PATCH', `/api/tokens/${name}`, { weight: 2 })).status).toBe(200);
    expect((await ask('GET', '/api/fleet', undefined, token)).status).toBe(200);
    expect([worker.closed, viewer.isClosed]).toEqual([null, false]);
    expect((await ask('PATCH', `/api/tokens/${name}`, changes)).status).toBe(200);
    await until(() => worker.closed !== null && viewer.isClosed, 'both are closed');
  },
);

it('a program whose token may not dial its socket any more submits nothing over the one that it has', async () => {
  const token = await make('narrowed', ['submit']);
  const program = await socket('/api/jobs/socket', token);
  const narrow = (...routes: string[]) => ask('PATCH', '/api/tokens/narrowed', { routes });
  expect((await narrow('/api/jobs/socket', '/v1/*')).status).toBe(200);
  await new Promise((done) => {
    program.ws.once('message', done);
    program.ws.send(PING_TEXT);
  });
  expect(program.isClosed).toBe(false);
  expect((await narrow('/v1/*')).status).toBe(200);
  const job = { id: 'late', job_type: 'chat_completion', config_id: 'cfg', payload: { messages: [] } };
  program.ws.send(JSON.stringify({ type: 'submit', jobs: [job] }));
  await until(() => program.isClosed, 'its socket is closed');
  expect((await ask('GET', '/api/jobs/late')).status).toBe(404);
});

/** Opens all that a token may open, which fails where the token expires meanwhile. */
async function openAll(token: string, name: string) {
  const worker = await (await new RawWorker(road.url, token).connect(queueId)).register(name);
  const [viewer, idle] = [await socket('/api/fleet/live', token), await socket('/api/fleet/live', token)];
  viewer.ws.send('{"type":"watch"}');
  return { worker, others: [viewer, idle, await socket('/api/jobs/socket', token)] };
}

it('a token that expires closes what was opened with it', async () => {
  let opened: Awaited<ReturnType<typeof openAll>> | null = null;
  // On a busy machine the token may expire too soon.
  for (let seconds = 4; opened === null && seconds <= 32; seconds *= 2) {
    const expires_at = new Date(Date.now() + seconds * 1000).toISOString();
    const name = `guest-${seconds}`;
    const token = await make(name, ['worker', 'read', 'submit'], { expires_at });
    opened = await openAll(token, name).catch(() => null);
  }
  const { worker, others } = opened!;
  await until(
    () => worker.closed !== null && worker.answersClosed !== null,
    'both sockets of the worker are closed',
  );
  await until(() => others.every(({ isClosed }) => isClosed), 'the others are closed');
});
