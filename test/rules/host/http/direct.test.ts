import { describe, expect, it } from 'vitest';
import { FEATURE_ROUTES } from '../../../../src/features/index.ts';
import { createApp } from '../../../../src/gateway/app.ts';
import type { GatewayEnv } from '../../../../src/gateway/env.ts';
import { directInference } from '../../../../src/host/node/http/direct.ts';
import { type AnswerRecord, decodeRecords, encodeRecords } from '../../../../src/protocol/index.ts';
import type { RequestAnswer } from '../../../../src/queue/rpc.ts';
import { RelayHost } from '../../../../src/relay/object/host.ts';
import { acceptNothing, playedObjects } from '../../../support/objects.ts';
import { until } from '../../../support/poll.ts';
import { tokenEntry } from '../../../support/token-entry.ts';
import { raw, serving } from './raw.ts';

/** Inference by the short way, and by the gateway's routes: the same to callers. */

const STREAM: RequestAnswer = { kind: 'stream', stream_id: 1, fence_token: 1, worker_id: 'w' };
const EVENTS = { 'content-type': 'text/event-stream' };

/** A gateway of one queue, whose worker the test plays. */
async function gateway(way: 'direct' | 'routes', more: Partial<GatewayEnv> = {}, answer = STREAM) {
  const told: AnswerRecord[] = [];
  const seen = { asked: 0, cancelled: 0, told };
  const hear = (message: string | Uint8Array<ArrayBuffer>) => {
    if (typeof message !== 'string') told.push(...decodeRecords(message));
  };
  const objects = playedObjects({
    queue: () => ({
      request: async () => {
        seen.asked += 1;
        return answer;
      },
      cancel: async () => {
        seen.cancelled += 1;
      },
      waitingLines: async () => [],
    }),
    relay: () => ({
      open: relay.open.bind(relay),
      openAnswer: relay.openAnswer.bind(relay),
    }),
  });
  const clock = { now: () => performance.now(), after: () => {} };
  const relay = new RelayHost({ reconnect_grace_seconds: 10 }, objects, clock);
  const worker = relay.connected({ send: hear, close: () => {} });
  const env: GatewayEnv = { objects, acceptUpgrade: acceptNothing, ...more };
  const app = createApp(FEATURE_ROUTES);
  const server = await serving(
    (request, waitUntil) =>
      app.fetch(request, env, { waitUntil, passThroughOnException: () => {}, props: {} }),
    way === 'direct' ? directInference(env) : undefined,
  );
  const say = (...records: AnswerRecord[]) => void worker.message(encodeRecords(records));
  return { ...server, seen, say };
}

const head = (headers: Record<string, string>, status = 200): AnswerRecord => ({
  type: 'head',
  stream: 1,
  head: { status, headers },
});
const bytes = (offset: number, text: string): AnswerRecord => ({
  type: 'bytes',
  stream: 1,
  offset,
  data: Buffer.from(text),
});
const end = (size: number): AnswerRecord => ({ type: 'end', stream: 1, size });

const post = (body: string, more: string[] = [], path = '/v1/chat/completions') =>
  [`POST ${path} HTTP/1.1`, 'Host: 127.0.0.1', 'Content-Type: application/json', ...more].concat(
    `Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  );
const ask = async (port: number, body: string, more?: string[], path?: string) => {
  const lines = post(body, more, path);
  return await raw(port, lines.slice(0, -1).concat(lines.at(-1)!.split('\r\n\r\n')[0]!), body);
};
const WAYS = ['direct', 'routes'] as const;

/** Returns the bytes of a chunked body, one character each. @throws Error where the body is not well framed */
function unchunked(body: string): string {
  const [, size, rest] = /^([\da-f]+)\r\n([\s\S]*)$/.exec(body) ?? [];
  if (size === undefined || rest === undefined) throw new Error(`no chunk: ${body.slice(0, 40)}`);
  const length = Number.parseInt(size, 16);
  if (!rest.startsWith('\r\n', length)) throw new Error(`a chunk of ${size} does not end`);
  return length === 0 ? '' : rest.slice(0, length) + unchunked(rest.slice(length + 2));
}

describe.each(WAYS)('inference (%s)', (way) => {
  it('answers in one piece what is there in one piece, with its length and its ids', async () => {
    const { port, say } = await gateway(way);
    const caller = await ask(port, '{"model":"m"}', ['X-Request-Id: mine']);
    say(head({ 'content-type': 'application/json' }), bytes(0, '{"a":1}'), end(7));
    await caller.hears('{"a":1}');
    expect(caller.heard()).toMatch(/content-length: 7\r\n/i);
    expect(caller.heard()).toMatch(/x-request-id: mine\r\n/i);
    expect(caller.heard()).toMatch(/x-job-id: req_1\w{4}[\da-f-]{36}\r\n/i);
  });

  it('passes a stream on as it comes', async () => {
    const { port, say } = await gateway(way);
    const caller = await ask(port, '{"stream":true}');
    say(head(EVENTS), bytes(0, 'data: 1\n\n'));
    await caller.hears('data: 1\n\n');
    say(bytes(9, 'data: 2\n\n'));
    await caller.hears('data: 2\n\n');
    expect(caller.heard()).toMatch(/x-accel-buffering: no/i);
    say(end(18));
    await caller.hears('\r\n0\r\n\r\n');
    caller.socket.write('GET /nothing HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n');
    await caller.hears('HTTP/1.1 404');
  });

  it('frames each byte of a stream in chunks, whatever comes together', async () => {
    const { port, say } = await gateway(way);
    const caller = await ask(port, '{"stream":true}');
    const events = [1, 20, 300, 70_000].map((length) => `data: ${'é'.repeat(length)}\n\n`);
    let sent = 0;
    say(head(EVENTS), bytes(0, events[0]!));
    sent += Buffer.byteLength(events[0]!);
    await caller.hears('data: ');
    for (const event of events.slice(1)) {
      say(bytes(sent, event));
      sent += Buffer.byteLength(event);
    }
    say(end(sent));
    await caller.hears('\r\n0\r\n\r\n');
    const [, body = ''] = caller.heard().split(/(?<=\r\n\r\n)([\s\S]*)/);
    expect(Buffer.from(unchunked(body), 'latin1').toString()).toBe(events.join(''));
  });

  it('ends a stream to a caller of HTTP/1.0 with the connection', async () => {
    const { port, say } = await gateway(way);
    const caller = await raw(
      port,
      ['POST /v1/chat/completions HTTP/1.0', 'Host: 127.0.0.1', 'Content-Length: 2'],
      '{}',
    );
    say(head(EVENTS), bytes(0, 'data: 1\n\n'));
    await caller.hears('data: 1\n\n');
    say(bytes(9, 'data: 2\n\n'), end(18));
    expect((await caller.whole()).split('\r\n\r\n')[1]).toBe('data: 1\n\ndata: 2\n\n');
  });

  it('shows that an answer is not whole', async () => {
    const { port, say } = await gateway(way);
    const caller = await ask(port, '{}');
    say(head({ 'content-type': 'application/json' }), bytes(0, '{"a":'));
    await caller.hears('{"a":');
    say({ type: 'broken', stream: 1, reason: { message: 'died', code: 'engine_died', retryable: false } });
    expect(await caller.whole()).not.toContain('\r\n0\r\n');
  });

  it('tells a stream that broke why, as an event', async () => {
    const { port, say } = await gateway(way);
    const caller = await ask(port, '{"stream":true}');
    say(head(EVENTS), bytes(0, 'data: 1\n\n'));
    await caller.hears('data: 1');
    say({ type: 'broken', stream: 1, reason: { message: 'died', code: 'engine_died', retryable: false } });
    await caller.hears(/died[\s\S]*\r\n0\r\n\r\n/);
  });

  it('pauses a worker whose caller does not read, and lets it go on', async () => {
    const { port, say, seen } = await gateway(way);
    const caller = await ask(port, '{}');
    caller.socket.pause();
    say(head({ 'content-type': 'application/json' }));
    const piece = 'x'.repeat(64 * 1024);
    let sent = 0;
    const paused = () => seen.told.some(({ type }) => type === 'pause');
    while (!paused()) {
      say(bytes(sent, piece));
      sent += piece.length;
      await new Promise((done) => setImmediate(done));
    }
    // What the kernels take, and a quarter of a MiB.
    expect(sent).toBeLessThan(32 * 1024 * 1024);
    expect(seen.told.some(({ type }) => type === 'resume')).toBe(false);
    caller.socket.resume();
    await until(() => seen.told.some(({ type }) => type === 'resume'), 'the worker goes on');
    say(end(sent));
    await caller.hears('\r\n0\r\n\r\n');
  });

  it.each(['closes in order', 'breaks off'])('misses a caller that %s before its answer', async (how) => {
    const { port, seen } = await gateway(way);
    const caller = await ask(port, '{}');
    await until(() => seen.asked === 1, 'it is asked');
    if (how === 'breaks off') caller.socket.resetAndDestroy();
    else caller.socket.destroy();
    await until(() => seen.cancelled === 1, 'its job is cancelled');
  });

  it('misses a caller that leaves in the middle of its answer', async () => {
    const { port, say, seen } = await gateway(way);
    const caller = await ask(port, '{"stream":true}');
    say(head(EVENTS), bytes(0, 'data: 1\n\n'));
    await caller.hears('data: 1');
    caller.socket.destroy();
    await until(() => seen.told.some(({ type }) => type === 'cancel'), 'the worker stops');
  });

  describe('of two requests that came at once over one connection', () => {
    const both = async () => {
      let streams = 0;
      const made = await gateway(
        way,
        {},
        {
          ...STREAM,
          get stream_id() {
            streams += 1;
            return streams;
          },
        },
      );
      const lines = post('{"stream":true}');
      const caller = await raw(made.port, [], `${lines.join('\r\n')}${lines.join('\r\n')}`);
      await until(() => made.seen.asked === 2, 'both are asked');
      const say = (stream: number, ...records: AnswerRecord[]) =>
        made.say(...records.map((record) => ({ ...record, stream })));
      return { ...made, caller, say };
    };
    const told = (of: AnswerRecord[], type: string) => of.filter((record) => record.type === type);

    it('writes the second behind the first, and pauses it until then', async () => {
      const { caller, say, seen } = await both();
      say(1, head(EVENTS), bytes(0, 'data: 1\n\n'));
      await caller.hears('data: 1');
      say(2, head(EVENTS));
      const event = `data: ${'x'.repeat(64 * 1024)}\n\n`;
      let sent = 0;
      while (told(seen.told, 'pause').length === 0) {
        say(2, bytes(sent, event));
        sent += event.length;
        await new Promise((done) => setImmediate(done));
      }
      expect(sent).toBeLessThan(1024 * 1024);
      expect(caller.heard()).not.toContain('xx');
      say(1, bytes(9, 'data: 2\n\n'), end(18));
      await until(() => told(seen.told, 'resume').length > 0, 'the second goes on');
      expect(told(seen.told, 'resume')).toEqual([{ type: 'resume', stream: 2 }]);
      say(2, bytes(sent, 'data: 3\n\n'), end(sent + 9));
      await caller.hears(/data: 3[\s\S]*\r\n0\r\n\r\n/);
      const [, first, , second] = caller.heard().split(/\r\n\r\n(?=[\da-f]+\r\n)|(?<=\r\n0\r\n\r\n)/);
      expect(unchunked(first!)).toBe('data: 1\n\ndata: 2\n\n');
      expect(unchunked(second!)).toBe(`${event.repeat(sent / event.length)}data: 3\n\n`);
    });

    it('misses the caller of both', async () => {
      const { caller, say, seen } = await both();
      say(1, head(EVENTS), bytes(0, 'data: 1\n\n'));
      say(2, head(EVENTS), bytes(0, 'data: 1\n\n'));
      await caller.hears('data: 1');
      caller.socket.destroy();
      await until(() => told(seen.told, 'cancel').length === 2, 'both streams end');
    });
  });

  it('tells a caller that waits, and gives it the answer then', async () => {
    const { port, say } = await gateway(way);
    const [events, json] = [await ask(port, '{"stream":true}'), null];
    await events.hears(': waiting\n\n');
    expect(json).toBeNull();
    say(head(EVENTS), bytes(0, 'data: 1\n\n'), end(9));
    await events.hears(/data: 1\n\n[\s\S]*0\r\n\r\n/);
  });

  it('keeps a request for JSON alive by blanks', async () => {
    const { port, say } = await gateway(way);
    const caller = await ask(port, '{}');
    await caller.hears('\r\n1\r\n\n\r\n');
    say(head({ 'content-type': 'application/json' }), bytes(0, '{"a":1}'), end(7));
    await caller.hears(/\{"a":1\}[\s\S]*0\r\n\r\n/);
  });
});

describe('both ways', () => {
  const TOKENS = JSON.stringify([tokenEntry('key', ['submit']), tokenEntry('reader', ['read'])]);
  const KEY = 'Authorization: Bearer key';
  const refused: RequestAnswer = {
    kind: 'refused',
    reason: 'unknown_model',
    message: 'There is no model.',
    retry_after_seconds: 5,
  };
  const failed: RequestAnswer = {
    kind: 'error',
    failure: { message: 'no', code: 'invalid_request', retryable: false },
    worker_id: 'w',
  };
  const CASES: [string, string, string[], Partial<GatewayEnv>, RequestAnswer?, string?][] = [
    ['no token', '{}', [], { TOKENS }],
    ['a token without the scope', '{}', ['Authorization: Bearer reader'], { TOKENS }],
    ['an unknown model', '{"model":"x"}', [KEY], { TOKENS }, refused],
    ['an unknown model, to Anthropic’s clients', '{"model":"x"}', [KEY], { TOKENS }, refused, '/v1/messages'],
    ['what a worker refuses', '{"model":"x"}', [], {}, failed],
    ['no JSON', '{"model":', [], {}],
    ['a wait that is none', '{}', ['X-Queue-Wait: long'], {}],
    ['a queue that may not be', '{}', ['X-Queue-Id: other'], {}],
    ['a proxy', '{}', ['X-Forwarded-For: 1.2.3.4'], {}],
    ['another page', '{}', ['Origin: https://elsewhere.example'], {}],
    ['a compressed body', '{}', ['Content-Encoding: gzip'], {}],
    ['a path with a query', '{"model":"x"}', [], {}, refused, '/v1/completions?a=b'],
    [
      'a route that is not let through',
      '{}',
      [],
      { INFERENCE_ROUTES: '-POST /v1/completions' },
      refused,
      '/v1/completions',
    ],
    ['a body that is too long', JSON.stringify({ a: 'x'.repeat(2000) }), [], { MAX_BODY_BYTES: '1000' }],
  ];

  it.each(CASES)('say the same to %s', async (_what, body, more, env, answer, path) => {
    const answers = await Promise.all(
      WAYS.map(async (way) => {
        const { port } = await gateway(way, env, answer);
        const caller = await ask(port, body, [...more, 'X-Request-Id: mine', 'Connection: close'], path);
        return plain(await caller.whole());
      }),
    );
    expect(answers[0]).toEqual(answers[1]);
    expect(answers[0]!.status).toMatch(/ [45]\d\d /);
  });

  /** An answer without what differs from one to the next. */
  function plain(heard: string) {
    const [first = '', ...rest] = heard.split('\r\n\r\n');
    const [status, ...lines] = first
      .split('\r\n')
      .map((line) => line.replaceAll(/[\da-f]{8}-[\da-f-]{27}/g, 'ID'));
    const headers = lines
      .filter((line) => !/^date:/i.test(line))
      .map((line) => line.replace(/^[^:]+/, (name) => name.toLowerCase()));
    return { status, headers: headers.sort(), body: rest.join('\r\n\r\n') };
  }
});
