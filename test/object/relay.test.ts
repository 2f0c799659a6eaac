import { describe, expect, it } from 'vitest';
import { WebSocket } from 'ws';
import { withoutComments } from '../support/comments.ts';
import { until } from '../support/poll.ts';
import { ANSWERED_FIRST, bytes, EVENT_STREAM, type JobFrame, RawWorker } from '../support/raw-worker.ts';
import { startTestQueue } from '../support/test-queue.ts';

/** Answers through gateway, queue and relay in a real queue; the worker is played by the test. */
let queueNumber = 0;
const road = startTestQueue({ RECONNECT_GRACE_SECONDS: '2' });

const streamOf = (job: JobFrame) => job.stream_id as number;

async function worker(queue: string, id = 'w', more = {}): Promise<RawWorker> {
  return await (await new RawWorker(road.url).connect(queue)).register(id, more);
}

function chat(
  queue: string,
  { headers, ...more }: RequestInit & { headers?: object } = {},
): Promise<Response> {
  return fetch(`${road.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'x-queue-id': queue, 'content-type': 'application/json', ...headers },
    body: '{"model":"tiny","messages":[{"role":"user","content":"hi"}],"stream":true,"seed":9007199254740993}',
    ...more,
  });
}

describe('an answer', () => {
  it('reaches the caller as the engine sent it, and the request reaches the worker byte for byte', async () => {
    const queue = `q${++queueNumber}`;
    const played = await worker(queue);
    const answered = chat(queue, { headers: ANSWERED_FIRST });
    const job = await played.job();
    expect((job.payload as { body: string }).body).toContain('"seed":9007199254740993');
    const stream = streamOf(job);
    played.answer({
      type: 'head',
      stream,
      head: { status: 418, headers: { 'content-type': 'application/json' } },
    });
    played.answer({ type: 'bytes', stream, offset: 0, data: bytes('{"tea":') });
    played.answer(
      { type: 'bytes', stream, offset: 7, data: bytes('true}') },
      { type: 'end', stream, size: 12 },
    );
    const response = await answered;
    expect([response.status, response.headers.get('content-type')]).toEqual([418, 'application/json']);
    expect(await response.text()).toBe('{"tea":true}');
  });

  it.each(['/elsewhere', 'https://other.example/'])(
    'that is a redirect reaches the caller as it is: %s',
    async (location) => {
      const queue = `q${++queueNumber}`;
      const played = await worker(queue);
      const answered = chat(queue, { redirect: 'manual', headers: ANSWERED_FIRST });
      const stream = streamOf(await played.job());
      played.answer(
        { type: 'head', stream, head: { status: 307, headers: { location, 'content-type': 'text/plain' } } },
        { type: 'bytes', stream, offset: 0, data: bytes('go on') },
        { type: 'end', stream, size: 5 },
      );
      const response = await answered;
      expect([response.status, response.headers.get('location')]).toEqual([307, location]);
      expect(await response.text()).toBe('go on');
    },
  );

  it('is taken to another worker when its attempt breaks before the first byte', async () => {
    const queue = `q${++queueNumber}`;
    const [first, second] = [await worker(queue, 'first'), await worker(queue, 'second')];
    const answered = chat(queue);
    const players = new Map([
      [await Promise.race([first.job().then(() => first), second.job().then(() => second)]), true],
    ]);
    const dying = players.has(first) ? first : second;
    const other = dying === first ? second : first;
    const job = await dying.job();
    dying.answer({ type: 'head', stream: streamOf(job), head: EVENT_STREAM });
    dying.vanish();
    const again = await other.job();
    expect(again.job_id).toBe(job.job_id);
    const stream = streamOf(again);
    other.answer(
      { type: 'head', stream, head: EVENT_STREAM },
      { type: 'bytes', stream, offset: 0, data: bytes('data: [DONE]\n\n') },
      { type: 'end', stream, size: 14 },
    );
    const response = await answered;
    expect(response.status).toBe(200);
    expect(withoutComments(await response.text())).toBe('data: [DONE]\n\n');
  });

  it('ends with an error event, never a second beginning, when it breaks after a token', async () => {
    const queue = `q${++queueNumber}`;
    const played = await worker(queue);
    const other = await worker(queue, 'other', { capacity: 0 });
    const answered = chat(queue);
    const stream = streamOf(await played.job());
    played.answer(
      { type: 'head', stream, head: EVENT_STREAM },
      { type: 'bytes', stream, offset: 0, data: bytes('data: {"a":1}\n\n') },
    );
    const response = await answered;
    played.vanish();
    const text = withoutComments(await response.text());
    expect(text).toMatch(
      /^data: \{"a":1\}\n\ndata: \{"error":\{"message":"The answer broke off:.*\n\ndata: \[DONE\]\n\n$/,
    );
    expect(other.frames.filter((frame) => frame.type === 'job')).toEqual([]);
  });

  it('is cancelled at the worker when the caller hangs up, also while nothing is said', async () => {
    const queue = `q${++queueNumber}`;
    const played = await worker(queue, 'w', { capacity: 2 });
    const hangUp = new AbortController();
    const answered = chat(queue, { signal: hangUp.signal });
    const talking = streamOf(await played.job());
    played.answer({ type: 'head', stream: talking, head: EVENT_STREAM });
    played.answer({ type: 'bytes', stream: talking, offset: 0, data: bytes('data: {}\n\n') });
    await answered;
    hangUp.abort();
    await until(
      () => played.records.some((record) => record.type === 'cancel' && record.stream === talking),
      'the open stream is cancelled',
    );

    const early = new AbortController();
    // A response that takes long has begun before the caller hangs up.
    const silent = chat(queue, { signal: early.signal })
      .then((response) => response.text())
      .catch(() => 'aborted');
    const waiting = streamOf(await played.job(1));
    played.answer({ type: 'head', stream: waiting, head: EVENT_STREAM });
    early.abort();
    expect(await silent).toBe('aborted');
    await until(
      () => played.records.some((record) => record.type === 'cancel' && record.stream === waiting),
      'the silent stream is cancelled',
    );
  });

  it('that waits long for a slot is begun, so that its caller is missed when it hangs up', async () => {
    const queue = `q${++queueNumber}`;
    const busy = await worker(queue);
    void chat(queue).catch(() => {});
    await busy.job();
    const pending = async () => {
      const health = await fetch(`${road.url}/health`, { headers: { 'x-queue-id': queue } });
      return ((await health.json()) as { pending: number }).pending;
    };
    const hangUp = new AbortController();
    const gone = chat(queue, { signal: hangUp.signal });
    const waiting = chat(queue);
    await until(async () => (await pending()) === 2, 'both wait');
    expect((await gone).headers.get('content-type')).toContain('text/event-stream');
    hangUp.abort();
    await until(async () => (await pending()) === 1, 'the caller that is gone waits no more');

    const other = await worker(queue, 'other');
    const next = await other.job();
    const stream = streamOf(next);
    other.answer(
      { type: 'head', stream, head: EVENT_STREAM },
      { type: 'bytes', stream, offset: 0, data: bytes('data: [DONE]\n\n') },
      { type: 'end', stream, size: 14 },
    );
    const response = await waiting;
    expect(response.headers.get('x-job-id')).toBe(next.job_id);
    expect(withoutComments(await response.text())).toBe('data: [DONE]\n\n');
  });

  it('goes on byte for byte when the answer socket breaks and comes back', async () => {
    await road.restart({ RECONNECT_GRACE_SECONDS: '60' });
    const queue = `q${++queueNumber}`;
    const played = await worker(queue);
    const answered = chat(queue);
    const job = await played.job();
    const stream = streamOf(job);
    played.answer(
      { type: 'head', stream, head: EVENT_STREAM },
      { type: 'bytes', stream, offset: 0, data: bytes('data: 1\n\n') },
    );
    const response = await answered;
    played.vanish();
    const back = await worker(queue, 'w', { jobs: [{ job_id: job.job_id, fence_token: job.fence_token }] });
    const taken = await until(
      () => back.records.find((record) => record.type === 'taken' && record.stream === stream),
      'the relay tells where the stream stands',
    );
    expect(taken).toMatchObject({ offset: 9 });
    back.answer(
      { type: 'bytes', stream, offset: 0, data: bytes('data: 1\n\ndata: 2\n\n') },
      { type: 'end', stream, size: 18 },
    );
    expect(withoutComments(await response.text())).toBe('data: 1\n\ndata: 2\n\n');
  });

  it('from a slow reader makes the worker pause and not lose a byte', async () => {
    const queue = `q${++queueNumber}`;
    const played = await worker(queue);
    const answered = chat(queue);
    const stream = streamOf(await played.job());
    played.answer({ type: 'head', stream, head: EVENT_STREAM });
    const piece = bytes(`data: ${'x'.repeat(64 * 1024)}\n\n`);
    let offset = 0;
    const paused = () => {
      const signs = played.records.filter((record) => record.type === 'pause' || record.type === 'resume');
      return signs.at(-1)?.type === 'pause';
    };
    const write = () => {
      played.answer({ type: 'bytes', stream, offset, data: piece });
      offset += piece.byteLength;
    };
    write();
    const response = await answered;
    await until(() => {
      if (!paused()) write();
      return paused() && offset > 1_000_000;
    }, 'the worker is paused');
    expect(offset).toBeLessThan(64 * 1024 * 1024);
    const read = response.arrayBuffer();
    await until(() => !paused(), 'the worker is resumed');
    played.answer({ type: 'end', stream, size: offset });
    const text = withoutComments(new TextDecoder().decode(await read));
    expect(text.length).toBe(offset);
  });
});

describe('an answer socket', () => {
  it('is taken only under the newest session of its worker', async () => {
    const queue = `q${++queueNumber}`;
    const dial = (url: string) =>
      new Promise<number>((resolve, reject) => {
        const socket = new WebSocket(url.replace(/^http/, 'ws'));
        socket.on('error', reject);
        socket.on('unexpected-response', (_, { statusCode }) => resolve(statusCode ?? 0));
        socket.on('open', () => {
          resolve(101);
          socket.terminate();
        });
      });
    const addressOf = async (played: RawWorker) =>
      `${road.url}/${(await played.next('registered')).answers_url}`;
    const older = await addressOf(await worker(queue));
    expect(await dial(older)).toBe(101);
    const newer = await addressOf(await worker(queue));
    expect(await dial(older)).toBe(409);
    expect(await dial(newer.replace(/session_id=[^&]*/, ''))).toBe(409);
    expect(await dial(newer.replace('worker_id=w', 'worker_id=other'))).toBe(409);
    expect(await dial(newer)).toBe(101);
  });
});

describe('a worker that speaks only the base', () => {
  it('answers a caller with one JSON body, or one chunk and the end mark where a stream was asked for', async () => {
    const queue = `q${++queueNumber}`;
    const played = await worker(queue, 'old', { base: true, capacity: 2 });
    await until(async () => {
      const models = await fetch(`${road.url}/v1/models`, { headers: { 'x-queue-id': queue } });
      return ((await models.json()) as { data: unknown[] }).data.length > 0;
    }, 'the worker is known');
    const completion = {
      id: 'cmpl-1',
      model: 'm',
      choices: [{ index: 0, message: { role: 'assistant', content: 'Paris' }, finish_reason: 'stop' }],
      usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
    };
    const settle = (job: JobFrame) =>
      played.send({
        type: 'job_result',
        job_id: job.job_id,
        fence_token: 0,
        result: { status: 'success', completion },
      });
    const body = (stream: boolean) =>
      JSON.stringify({ model: 'cfg', stream, messages: [{ role: 'user', content: 'hi' }] });

    const whole = chat(queue, { body: body(false) });
    const first = await played.job();
    expect(first.payload).toMatchObject({ task: 'openai/chat-completion', messages: [{ content: 'hi' }] });
    settle(first);
    expect(await (await whole).json()).toMatchObject({
      object: 'chat.completion',
      choices: completion.choices,
    });

    const streamed = chat(queue, { body: body(true) });
    settle(await played.job(1));
    const text = await (await streamed).text();
    expect(text).toContain('"chat.completion.chunk"');
    expect(text).toContain('Paris');
    expect(text.endsWith('data: [DONE]\n\n')).toBe(true);
  });
});
