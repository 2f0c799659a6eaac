import { expect, test } from 'vitest';
import type { WorkerSettings } from '../../../src/worker/worker.ts';
import { STREAM_JOB, WorkerBench } from '../../support/worker-fakes.ts';

const EVENTS = 'text/event-stream; charset=utf-8';
const MANY = 3;

/** So many streams of one worker, whose heads the relay has; the interval is full from the first event on. */
async function running(
  streams: number,
  settings: Partial<WorkerSettings['streamInterval']> = {},
): Promise<WorkerBench> {
  const streamInterval = { minMs: 0, maxMs: 20, rampEvents: 0, manyStreams: MANY, ...settings };
  const bench = await new WorkerBench({ capacity: 8, streamInterval }).ready();
  for (let n = 0; n < streams; n++) {
    await bench.push({ ...STREAM_JOB, job_id: `j${n}`, stream_id: n, fence_token: n + 1 });
  }
  for (const exchange of bench.engine.exchanges) exchange.head(200, EVENTS);
  await bench.clock.advance(25);
  return bench;
}

/** Every stream brings one event. */
async function token(bench: WorkerBench, name: string): Promise<void> {
  for (const exchange of bench.engine.exchanges) exchange.write(`data: ${name}\n\n`);
  await bench.clock.advance(0);
}

/** The pieces that the relay has of a stream, by the names of their events. */
function pieces(bench: WorkerBench, stream = 0): string[][] {
  return bench.relay.records.flatMap((record) =>
    record.type === 'bytes' && record.stream === stream && record.data.byteLength > 0
      ? [
          [
            ...Buffer.from(record.data)
              .toString()
              .matchAll(/data: (\S+)\n/g),
          ].map(([, name]) => name!),
        ]
      : [],
  );
}

test('a head goes with the first event, or alone when that takes long', async () => {
  const bench = await new WorkerBench({ capacity: 2 }).ready();
  await bench.push(STREAM_JOB);
  bench.engine.last.head(200, EVENTS);
  await bench.clock.advance(20);
  expect(bench.relay.messages).toEqual([]);
  bench.engine.last.write('data: a\n\n');
  await bench.clock.advance(0);
  expect(bench.relay.messages.map((records) => records.map(({ type }) => type))).toEqual([['head', 'bytes']]);
  await bench.push({ ...STREAM_JOB, job_id: 'j2', stream_id: 8, fence_token: 2 });
  bench.engine.last.head(200, EVENTS);
  await bench.clock.advance(25);
  expect(bench.relay.messages.at(-1)).toMatchObject([{ type: 'head', stream: 8 }]);
});

test('with few streams every event goes as it comes', async () => {
  const bench = await running(MANY - 1);
  for (const name of ['a', 'b', 'c']) {
    await token(bench, name);
    await bench.clock.advance(3);
  }
  expect(pieces(bench)).toEqual([['a'], ['b'], ['c']]);
});

test('with many streams the first event goes at once, and later ones together', async () => {
  const bench = await running(MANY);
  await token(bench, 'a');
  expect(pieces(bench)).toEqual([['a']]);
  for (const name of ['b', 'c', 'd', 'e']) {
    await bench.clock.advance(9);
    await token(bench, name);
  }
  expect(pieces(bench)).toEqual([['a'], ['b', 'c']]);
  await bench.clock.advance(20);
  expect(pieces(bench)).toEqual([['a'], ['b', 'c'], ['d', 'e']]);
});

test('what is due of all streams is one message', async () => {
  const bench = await running(MANY);
  await token(bench, 'a');
  const before = bench.relay.messages.length;
  for (const [at, exchange] of bench.engine.exchanges.entries()) {
    await bench.clock.advance(at);
    exchange.write('data: b\n\n').write('data: c\n\n');
  }
  await bench.clock.advance(20);
  const since = bench.relay.messages.slice(before);
  expect(since.map((records) => records.map(({ stream }) => stream))).toEqual([[0, 1, 2]]);
});

test('a stream slower than its interval is never held back', async () => {
  const bench = await running(MANY);
  await token(bench, 'a');
  for (const name of ['b', 'c']) {
    await bench.clock.advance(25);
    await token(bench, name);
    expect(pieces(bench).at(-1)).toEqual([name]);
  }
});

test('the end takes along what waits', async () => {
  const bench = await running(MANY);
  await token(bench, 'a');
  bench.engine.exchanges[0]!.write('data: b\n\n').write('data: [DONE]\n\n').end();
  await bench.clock.advance(0);
  expect(bench.relay.bytesOf(0)).toBe('data: a\n\ndata: b\n\ndata: [DONE]\n\n');
  expect(bench.relay.records.at(-1)).toMatchObject({ type: 'end', stream: 0 });
});

test('an error waits for nothing', async () => {
  const bench = await running(MANY);
  await token(bench, 'a');
  bench.engine.exchanges[0]!.write('data: b\n\n').write('data: {"error":{"message":"no"}}\n\n');
  await bench.clock.advance(0);
  expect(bench.relay.bytesOf(0)).toContain('"error"');
  bench.engine.exchanges[1]!.write('data: b\n\n').die();
  await bench.clock.advance(0);
  expect(bench.relay.bytesOf(1)).toBe('data: a\n\ndata: b\n\n');
  expect(bench.relay.records.at(-1)).toMatchObject({ type: 'broken', stream: 1 });
});

test('much of one stream waits for nothing', async () => {
  const bench = await running(MANY);
  await token(bench, 'a');
  bench.engine.exchanges[0]!.write(`data: ${'x'.repeat(40_000)}\n\n`);
  await bench.clock.advance(0);
  expect(bench.relay.bytesOf(0).length).toBeGreaterThan(40_000);
});

test('the interval grows with the events of a stream', async () => {
  const bench = await running(MANY, { rampEvents: 8 });
  for (const name of 'abcdefghijkl') {
    await token(bench, name);
    await bench.clock.advance(5);
  }
  await bench.clock.advance(20);
  const sizes = pieces(bench).map((events) => events.length);
  expect(sizes.slice(0, 2)).toEqual([1, 1]);
  expect(Math.max(...sizes)).toBeGreaterThan(2);
  expect(pieces(bench).flat().join('')).toBe('abcdefghijkl');
});

test('an interval that is set for all holds with a single stream too', async () => {
  const bench = await running(1, { minMs: 50, maxMs: 50 });
  await token(bench, 'a');
  await token(bench, 'b');
  await bench.clock.advance(40);
  await token(bench, 'c');
  expect(pieces(bench)).toEqual([['a']]);
  await bench.clock.advance(10);
  expect(pieces(bench)).toEqual([['a'], ['b', 'c']]);
});

test('nothing is armed when all streams are over', async () => {
  const bench = await running(MANY);
  const armed = bench.clock.armed;
  await token(bench, 'a');
  await token(bench, 'b');
  expect(bench.clock.armed).toBe(armed + 1);
  await bench.clock.advance(20);
  expect(bench.clock.armed).toBe(armed);
});
