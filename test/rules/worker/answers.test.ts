import { expect, test } from 'vitest';
import { bounds } from '../../../src/protocol/index.ts';
import { settled } from '../../support/virtual-clock.ts';
import { STREAM_JOB, WorkerBench } from '../../support/worker-fakes.ts';

const EVENTS = 'text/event-stream; charset=utf-8';
const MIB = 1024 * 1024;
const DONE = 'data: [DONE]\n\n';

async function streaming(job: object = {}): Promise<WorkerBench> {
  const bench = await new WorkerBench({ capacity: 4 }).ready();
  await bench.push({ ...STREAM_JOB, ...job });
  return bench;
}

/** Another connection of the worker to the relay. */
async function reconnectRelay(bench: WorkerBench): Promise<void> {
  bench.relay.close();
  await bench.clock.advance(1000);
  bench.relay.open();
  await bench.clock.advance(0);
}

test('an answer travels with its status, headers and bytes, and its job is settled', async () => {
  const bench = await streaming();
  bench.engine.last.head(200, EVENTS).write('data: 1\n\n').write(DONE).end();
  await bench.clock.advance(0);
  expect(bench.relay.records[0]).toEqual({
    type: 'head',
    stream: 7,
    head: { status: 200, headers: { 'content-type': EVENTS, 'x-engine': 'fake' } },
  });
  const whole = `data: 1\n\n${DONE}`;
  expect(bench.relay.bytesOf(7)).toBe(whole);
  expect(bench.relay.records.at(-1)).toEqual({ type: 'end', stream: 7, size: whole.length });
  expect(bench.results).toMatchObject([
    {
      result: { status: 'success', job_type: 'engine_request', answer_bytes: whole.length, http_status: 200 },
    },
  ]);
});

test('the settlement of a stream tells when its first token came', async () => {
  const bench = await streaming();
  bench.engine.last.head(200, EVENTS);
  await bench.clock.advance(250);
  bench.engine.last.write('data: 1\n\n');
  await bench.clock.advance(400);
  bench.engine.last.write(DONE).end();
  await bench.clock.advance(0);
  expect(bench.results).toMatchObject([{ timing: { started_ms: 0, first_token_ms: 250 } }]);
});

test('what several streams bring in one turn is one message, one record each', async () => {
  const bench = await streaming();
  await bench.push({ ...STREAM_JOB, job_id: 'j2', stream_id: 8, fence_token: 2 });
  for (const exchange of bench.engine.exchanges) exchange.head(200, EVENTS);
  await bench.clock.advance(25);
  const before = bench.relay.messages.length;
  for (const exchange of bench.engine.exchanges) exchange.write('data: 1\n\n').write('data: 2\n\n');
  await bench.clock.advance(0);
  const since = bench.relay.messages.slice(before);
  expect(since).toHaveLength(1);
  expect(since[0]?.map((record) => [record.type, record.stream])).toEqual([
    ['bytes', 7],
    ['bytes', 8],
  ]);
});

test('the end of an answer goes in the message of its last bytes, however full that is', async () => {
  const bench = await streaming();
  bench.engine.last
    .head(200, 'audio/wav')
    .write('a'.repeat(MIB - 17))
    .end();
  await bench.clock.advance(0);
  expect(bench.relay.messages.at(-1)?.map(({ type }) => type)).toEqual(['bytes', 'end']);
});

test('records hold whole events, whatever pieces the engine sends', async () => {
  const bench = await streaming();
  const exchange = bench.engine.last.head(200, EVENTS);
  for (const piece of ['da', 'ta: 1\n', '\ndata: 2\n\nda', 'ta: 3\r\n\r', '\n', DONE]) {
    exchange.write(piece);
    await bench.clock.advance(0);
  }
  exchange.end();
  await bench.clock.advance(0);
  const bytes = bench.relay.records.flatMap((record) =>
    record.type === 'bytes' ? [Buffer.from(record.data).toString()] : [],
  );
  expect(bytes).toEqual(['data: 1\n\ndata: 2\n\n', 'data: 3\r\n\r\n', DONE]);
});

test('of an answer that ends before its time the relay has whole events alone', async () => {
  const bench = await streaming();
  const token = 'data: {"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}\n\n';
  bench.engine.last.head(200, EVENTS).write(`${token}data: {"choices":[{"ind`).end();
  await bench.clock.advance(100);
  expect(bench.relay.bytesOf(7)).toBe(token);
  expect(bench.relay.records.at(-1)?.type).toBe('broken');
});

test('after a reconnect a stream goes on from what the relay has taken, byte for byte', async () => {
  const bench = await streaming();
  const exchange = bench.engine.last.head(200, EVENTS).write('data: 1\n\n').write('data: 2\n\n');
  await bench.clock.advance(0);
  bench.relay.pushRecords({ type: 'taken', stream: 7, offset: 9 });
  bench.relay.close();
  exchange.write('data: 3\n\n').write(DONE).end();
  await bench.clock.advance(1000);
  bench.relay.open();
  await bench.clock.advance(0);
  const [first] = bench.relay.records;
  expect(first).toMatchObject({ type: 'bytes', stream: 7, offset: 9 });
  const rest = bench.relay.records.flatMap((record) => (record.type === 'bytes' ? [record.data] : []));
  expect(Buffer.concat(rest).toString()).toBe(`data: 2\n\ndata: 3\n\n${DONE}`);
  expect(bench.relay.records.at(-1)).toEqual({ type: 'end', stream: 7, size: 27 + DONE.length });
});

test('a relay that has taken nothing gets the head again too', async () => {
  const bench = await streaming();
  bench.engine.last.head(200, EVENTS).write('data: 1\n\n');
  await bench.clock.advance(0);
  await reconnectRelay(bench);
  expect(bench.relay.records.map(({ type }) => type)).toEqual(['head', 'bytes']);
  expect(bench.relay.bytesOf(7)).toBe('data: 1\n\n');
});

test('a stream with nothing to send is named to the relay after a reconnect, which may know nobody that waits', async () => {
  const bench = await streaming();
  await reconnectRelay(bench);
  expect(bench.relay.records).toEqual([{ type: 'bytes', stream: 7, offset: 0, data: new Uint8Array() }]);
  bench.engine.last.head(200, EVENTS).write('data: 1\n\n');
  await bench.clock.advance(0);
  bench.relay.pushRecords({ type: 'taken', stream: 7, offset: 9 });
  await reconnectRelay(bench);
  expect(bench.relay.records).toEqual([{ type: 'bytes', stream: 7, offset: 9, data: new Uint8Array() }]);
  bench.relay.pushRecords({ type: 'cancel', stream: 7, reason: 'caller_gone' });
  await bench.clock.advance(0);
  expect(bench.engine.last.isAborted).toBe(true);
});

test('a stream is forgotten once the relay has all of it, and not before', async () => {
  const bench = await streaming();
  bench.engine.last.head(200, EVENTS).write(DONE).end();
  await bench.clock.advance(0);
  await reconnectRelay(bench);
  expect(bench.relay.bytesOf(7)).toBe(DONE);
  bench.relay.pushRecords({ type: 'taken', stream: 7, offset: DONE.length });
  await reconnectRelay(bench);
  expect(bench.relay.records).toEqual([]);
});

test('the end is sent again to a relay that has all bytes without it', async () => {
  const bench = await streaming();
  bench.engine.last.head(200, EVENTS).write(DONE).end();
  await bench.clock.advance(0);
  await reconnectRelay(bench);
  // The relay says what it has from before, and the connection breaks before the end has come.
  bench.relay.pushRecords({ type: 'taken', stream: 7, offset: DONE.length });
  await reconnectRelay(bench);
  bench.relay.pushRecords({ type: 'taken', stream: 7, offset: DONE.length });
  expect(bench.relay.records).toEqual([{ type: 'end', stream: 7, size: DONE.length }]);
});

test('a long answer in one piece goes on its way no faster than the relay takes it', async () => {
  const bench = await streaming();
  const text = JSON.stringify({ data: 'x'.repeat(12 * MIB) });
  bench.engine.last.head(200, 'application/json').write(text).end();
  await bench.clock.advance(0);
  bench.relay.pushRecords({ type: 'pause', stream: 7 });
  const sent = () => bench.relay.bytesOf(7).length;
  // What the relay allows a worker to have had on its way; beyond it the answer is broken.
  expect(sent()).toBeLessThan(bounds.SENT_WHILE_PAUSED_BYTES);
  expect(bench.results).toEqual([]);
  bench.relay.pushRecords({ type: 'taken', stream: 7, offset: sent() });
  await bench.clock.advance(0);
  expect(sent()).toBeLessThan(bounds.SENT_WHILE_PAUSED_BYTES);
  bench.relay.pushRecords({ type: 'resume', stream: 7 });
  await bench.clock.advance(0);
  for (let before = 0; before < sent(); ) {
    before = sent();
    bench.relay.pushRecords({ type: 'taken', stream: 7, offset: before });
    await bench.clock.advance(0);
  }
  expect(bench.relay.bytesOf(7)).toBe(text);
  expect(bench.results).toMatchObject([{ result: { answer_bytes: text.length } }]);
});

test('a paused stream reads no more from the engine until it is resumed', async () => {
  const bench = await streaming();
  const exchange = bench.engine.last.head(200, EVENTS).write('data: 1\n\n');
  await bench.clock.advance(0);
  bench.relay.pushRecords({ type: 'pause', stream: 7 });
  for (let index = 0; index < 10; index++) exchange.write('data: x\n\n');
  await bench.clock.advance(100);
  expect(exchange.read).toBeLessThanOrEqual(2);
  bench.relay.pushRecords({ type: 'resume', stream: 7 });
  await bench.clock.advance(0);
  expect(exchange.read).toBe(11);
});

test('a relay that takes nothing stops the engine after a window of bytes', async () => {
  const bench = await streaming();
  const exchange = bench.engine.last.head(200, EVENTS);
  const event = `data: ${'x'.repeat(bounds.ANSWER_WINDOW_BYTES / 4)}\n\n`;
  for (let index = 0; index < 10; index++) exchange.write(event);
  await bench.clock.advance(100);
  const window = Math.floor(bounds.ANSWER_WINDOW_BYTES / event.length) + 1;
  expect(exchange.read).toBe(window);
  bench.relay.pushRecords({ type: 'taken', stream: 7, offset: 2 * event.length });
  await bench.clock.advance(0);
  expect(exchange.read).toBe(window + 2);
});

test('a caller that is gone aborts the engine at once, and the job ends as cancelled', async () => {
  const bench = await streaming();
  bench.engine.last.head(200, EVENTS).write('data: 1\n\n');
  await bench.clock.advance(0);
  bench.relay.pushRecords({ type: 'cancel', stream: 7, reason: 'caller_gone' });
  expect(bench.engine.last.isAborted).toBe(true);
  await bench.clock.advance(0);
  expect(bench.errors).toMatchObject([{ code: 'cancelled', retryable: false }]);
  expect(bench.relay.records.at(-1)?.type).toBe('bytes');
});

test('records about a stream nobody knows are ignored', async () => {
  const bench = await streaming();
  bench.relay.pushRecords(
    { type: 'cancel', stream: 99, reason: 'caller_gone' },
    { type: 'taken', stream: 98, offset: 5 },
  );
  expect(bench.engine.last.isAborted).toBe(false);
});

test.each([
  ['before its head', (bench: WorkerBench) => bench.engine.last.refuse(), 'engine_unreachable', ''],
  [
    'in the middle',
    (bench: WorkerBench) => bench.engine.last.head(200, EVENTS).write('data: 1\n\nda').die(),
    'engine_died',
    'data: 1\n\n',
  ],
  [
    'by ending without a finish',
    (bench: WorkerBench) => bench.engine.last.head(200, EVENTS).write('data: 1\n\n').end(),
    'engine_died',
    'data: 1\n\n',
  ],
  [
    'by an abort that looks like a finish',
    (bench: WorkerBench) =>
      bench.engine.last
        .head(200, EVENTS)
        .write('data: 1\n\n')
        .write(`data: {"finish_reason":"abort"}\n\n${DONE}`)
        .end(),
    'engine_died',
    'data: 1\n\n',
  ],
])('an engine that fails %s breaks the answer for another attempt', async (_case, play, code, bytes) => {
  const bench = await streaming();
  play(bench);
  await bench.clock.advance(0);
  expect(bench.relay.bytesOf(7)).toBe(bytes);
  expect(bench.relay.records.at(-1)).toMatchObject({ type: 'broken', reason: { code, retryable: true } });
  expect(bench.errors).toMatchObject([{ code, retryable: true }]);
});

test('a text about aborts inside the answer is no abort', async () => {
  const bench = await streaming();
  const content = JSON.stringify({ delta: { content: '"finish_reason":"abort"' } });
  bench.engine.last.head(200, EVENTS).write(`data: ${content}\n\n`).write(DONE).end();
  await bench.clock.advance(0);
  expect(bench.relay.records.at(-1)?.type).toBe('end');
});

test('a word that some other field has is no abort', async () => {
  const bench = await streaming();
  bench.engine.last.head(200, EVENTS).write('data: {"stop_reason":"abort"}\n\n').write(DONE).end();
  await bench.clock.advance(0);
  expect(bench.relay.records.at(-1)?.type).toBe('end');
});

test('an error status is the answer of the caller', async () => {
  const bench = await streaming();
  bench.engine.last.json(400, { error: { message: 'too long' } });
  await bench.clock.advance(0);
  // The engine is asked again, without what the worker put into the body.
  bench.engine.last.json(400, { error: { message: 'too long' } });
  await bench.clock.advance(0);
  expect(bench.relay.records[0]).toMatchObject({ type: 'head', head: { status: 400 } });
  expect(JSON.parse(bench.relay.bytesOf(7))).toEqual({ error: { message: 'too long' } });
  expect(bench.results).toMatchObject([{ result: { http_status: 400 } }]);
});

test('a 500 of an engine that lives is passed on, of one that is dying it breaks the answer', async () => {
  const types: (string | undefined)[] = [];
  for (const healthy of [true, false]) {
    const bench = await streaming();
    bench.engine.healthy = healthy;
    bench.engine.last.json(500, { error: { message: 'EngineCore encountered an issue.' } });
    await bench.clock.advance(0);
    types.push(bench.relay.records.map(({ type }) => type).join(' '));
  }
  expect(types).toEqual(['head bytes end', 'broken']);
});

test('an answer in one piece that is cut leaves nothing with the caller', async () => {
  const bench = await streaming();
  bench.engine.last.head(200, 'application/json').write('{"id":').die();
  await bench.clock.advance(0);
  expect(bench.relay.records.map(({ type }) => type)).toEqual(['broken']);
});

test('a large answer is sent in messages of a moderate size', async () => {
  const bench = await streaming({ payload: { path: '/v1/audio/speech', body: '{}' } });
  const bytes = 'x'.repeat(5_000_000);
  bench.engine.last.head(200, 'audio/wav').write(bytes).end();
  await bench.clock.advance(0);
  expect(bench.relay.bytesOf(7)).toBe(bytes);
  expect(bench.relay.messages.length).toBeGreaterThan(4);
});

test('the relay is pinged, and dialled again when it is silent', async () => {
  const bench = await new WorkerBench().ready();
  const first = bench.relay;
  await bench.live(45_000);
  expect(first.textPings).toBe(3);
  expect(first.closedBy).toBe('destroyed');
  await bench.clock.advance(1000);
  expect(bench.relay).not.toBe(first);
});

test('an answer begun while the relay is out of reach is kept for it', async () => {
  const bench = await new WorkerBench().ready();
  bench.relay.close();
  await bench.push(STREAM_JOB);
  bench.engine.last.head(200, EVENTS).write(DONE).end();
  await settled();
  expect(bench.results).toHaveLength(1);
  await bench.clock.advance(1000);
  bench.relay.open();
  await bench.clock.advance(0);
  expect(bench.relay.bytesOf(7)).toBe(DONE);
});
