import { describe, expect, test } from 'vitest';
import { createLogger } from '../../../src/process/log.ts';
import { Outage } from '../../../src/process/outage.ts';
import { entryOf, type LogEntry, LogShipper } from '../../../src/process/shipping.ts';
import { settled, VirtualClock } from '../../support/virtual-clock.ts';

const INTERVAL_MS = 30_000;

/** A shipper and its receiver, which takes everything until told otherwise. */
function shipping() {
  const clock = new VirtualClock();
  const batches: LogEntry[][] = [];
  const changes: string[] = [];
  const receiver = { refuses: false, answer: Promise.resolve() };
  const told = {
    warn: ({ problem }: { problem?: string }) => changes.push(problem!),
    info: () => changes.push('arrives'),
  };
  const outage = new Outage(told, { begins: '', ends: '' });
  const shipper = new LogShipper({
    clock,
    intervalMs: INTERVAL_MS,
    post: async (entries) => {
      batches.push(entries);
      await receiver.answer;
      if (receiver.refuses) throw new Error('HTTP 500');
    },
    outage,
  });
  shipper.start();
  const add = (from: number, to: number) => {
    for (let n = from; n <= to; n++) shipper.add(line(`line ${n}`));
  };
  return { clock, batches, changes, receiver, shipper, add };
}

function line(message: string): LogEntry {
  return { timestamp: 1_767_225_600, level: 'info', source: 'worker', message };
}

function messages(batch: LogEntry[] | undefined): string[] {
  return (batch ?? []).map(({ message }) => message);
}

test('lines wait for the interval and go in the order they came, none of them twice', async () => {
  const { clock, batches, add } = shipping();
  add(1, 2);
  await clock.advance(INTERVAL_MS - 1);
  expect(batches).toEqual([]);
  await clock.advance(1);
  add(3, 3);
  await clock.advance(3 * INTERVAL_MS);
  expect(batches.map(messages)).toEqual([['line 1', 'line 2'], ['line 3']]);
});

test('a batch has at most 1,000 lines, and a full one does not wait for the interval', async () => {
  const { batches, receiver, add } = shipping();
  const slow = Promise.withResolvers<void>();
  receiver.answer = slow.promise;
  add(1, 2500);
  await settled();
  expect(batches).toHaveLength(1);
  slow.resolve();
  await settled();
  expect(batches.map((batch) => batch.length)).toEqual([1000, 1000, 500]);
  expect(batches.flatMap(messages)).toEqual(Array.from({ length: 2500 }, (_, n) => `line ${n + 1}`));
});

test('a batch is no larger than a receiver takes, whatever an engine prints', async () => {
  const { clock, batches, shipper } = shipping();
  for (let n = 0; n < 900; n++) shipper.add(line('\0'.repeat(10_000)));
  await clock.advance(INTERVAL_MS);
  expect(batches.flat()).toHaveLength(900);
  for (const batch of batches) expect(JSON.stringify(batch).length).toBeLessThan(1_000_000);
});

test('a refused batch goes again before what came after it, and both turns are told once', async () => {
  const { clock, batches, changes, receiver, add } = shipping();
  receiver.refuses = true;
  add(1, 2);
  await clock.advance(INTERVAL_MS);
  add(3, 3);
  await clock.advance(2 * INTERVAL_MS);
  expect(changes).toEqual(['HTTP 500']);
  receiver.refuses = false;
  await clock.advance(INTERVAL_MS);
  expect(messages(batches.at(-1))).toEqual(['line 1', 'line 2', 'line 3']);
  expect(changes).toEqual(['HTTP 500', 'arrives']);
});

test('a flood that nobody takes is offered once an interval, not at every line', async () => {
  const { clock, batches, receiver, add } = shipping();
  receiver.refuses = true;
  add(1, 5000);
  await settled();
  add(5001, 6000);
  await settled();
  expect(batches).toHaveLength(1);
  await clock.advance(INTERVAL_MS);
  expect(batches).toHaveLength(2);
});

test('past 10,000 lines the oldest go, and what arrives next says how many', async () => {
  const { clock, batches, receiver, add } = shipping();
  receiver.refuses = true;
  add(1, 1000);
  await settled();
  add(1001, 10_007);
  await clock.advance(INTERVAL_MS);
  receiver.refuses = false;
  const before = batches.length;
  await clock.advance(INTERVAL_MS);
  const arrived = batches.slice(before);
  expect(arrived.every((batch) => batch.length <= 1000)).toBe(true);
  const [gap, ...lines] = arrived.flat();
  expect(gap).toMatchObject({ level: 'warning', source: 'worker', message: /^7 older log lines/ });
  expect(lines).toHaveLength(10_000);
  expect(lines[0]?.message).toBe('line 8');
  expect(lines.at(-1)?.message).toBe('line 10007');
  add(10_008, 10_008);
  await clock.advance(INTERVAL_MS);
  expect(messages(batches.at(-1))).toEqual(['line 10008']);
});

test('lines that came while a batch was on its way do not push the bound up when it is refused', async () => {
  const { clock, batches, receiver, add } = shipping();
  const slow = Promise.withResolvers<void>();
  receiver.answer = slow.promise;
  receiver.refuses = true;
  add(1, 10_500);
  slow.resolve();
  await settled();
  receiver.refuses = false;
  const before = batches.length;
  await clock.advance(INTERVAL_MS);
  const [gap, ...lines] = batches.slice(before).flat();
  expect(gap?.message).toMatch(/^500 older/);
  expect(lines).toHaveLength(10_000);
  expect(lines[0]?.message).toBe('line 501');
});

test('a very long message is cut', async () => {
  const { clock, batches, shipper } = shipping();
  shipper.add(line('x'.repeat(100_000)));
  await clock.advance(INTERVAL_MS);
  expect(batches[0]?.[0]?.message).toMatch(/^x{4096}… \(cut\)$/);
});

describe('the end', () => {
  test('sends what is left at once, after the batch on its way, and nothing by itself after that', async () => {
    const { clock, batches, receiver, shipper, add } = shipping();
    const slow = Promise.withResolvers<void>();
    receiver.answer = slow.promise;
    add(1, 1);
    await clock.advance(INTERVAL_MS);
    add(2, 2);
    const closed = shipper.close(1000);
    await settled();
    expect(batches.map(messages)).toEqual([['line 1']]);
    slow.resolve();
    await closed;
    expect(batches.map(messages)).toEqual([['line 1'], ['line 2']]);
    expect(clock.armed).toBe(0);
  });

  test('waits for a receiver that does not answer no longer than its limit', async () => {
    const { clock, receiver, shipper, add } = shipping();
    receiver.answer = new Promise(() => {});
    add(1, 1);
    let isClosed = false;
    void shipper.close(1000).then(() => {
      isClosed = true;
    });
    await clock.advance(999);
    expect(isClosed).toBe(false);
    await clock.advance(1);
    await settled();
    expect(isClosed).toBe(true);
  });

  test('tries a receiver that refuses once more, not again and again', async () => {
    const { batches, receiver, shipper, add } = shipping();
    receiver.refuses = true;
    add(1, 1);
    await shipper.close(1000);
    expect(batches).toHaveLength(1);
  });
});

describe('an entry', () => {
  const show = (text: string) => text.replaceAll('hush', '(secret)');
  const entry = (fields: object) =>
    entryOf(
      JSON.stringify({
        level: 'info',
        time: '2026-01-01T00:00:00.999Z',
        name: 'worker',
        msg: 'hello',
        ...fields,
      }),
      'cfg',
      show,
    );

  test('has whole seconds, the pool, and who speaks', () => {
    expect(entry({})).toEqual({
      timestamp: 1_767_225_600,
      level: 'info',
      source: 'worker',
      message: 'hello',
      config_id: 'cfg',
    });
    expect(entry({ name: 'supervisor' }).source).toBe('worker');
    expect(entry({ name: 'engine' }).source).toBe('vllm');
  });

  test('knows three levels', () => {
    const levels = ['trace', 'debug', 'info', 'warn', 'error', 'fatal'].map(
      (level) => entry({ level }).level,
    );
    expect(levels).toEqual(['info', 'info', 'info', 'warning', 'error', 'error']);
  });

  test('names the job apart, and carries the other fields behind the message', () => {
    expect(entry({ job_id: 'j1', reason: 'deadline' })).toMatchObject({
      job_id: 'j1',
      message: 'hello {"reason":"deadline"}',
    });
  });

  test('has no message but its fields where the line has none', () => {
    expect(entryOf('{"level":"info","time":"2026-01-01T00:00:00Z","a":1}', 'cfg', show).message).toBe(
      '{"a":1}',
    );
  });

  test('is made of what the local log shows: secret fields are hidden before it', () => {
    const lines: string[] = [];
    const log = createLogger('worker', { LOG_FORMAT: 'json' }, (text) => lines.push(text));
    log.debug('below the level');
    log.warn({ token: 'opensesame', target: { authorization: 'Bearer opensesame' } }, 'dialling');
    expect(lines.map((text) => entryOf(text, 'cfg', show))).toMatchObject([
      {
        level: 'warning',
        message: 'dialling {"token":"(secret)","target":{"authorization":"(secret)"}}',
      },
    ]);
  });

  test('hides secrets in message and fields', () => {
    expect(entry({ msg: 'with hush', key: ['hush'] }).message).toBe('with (secret) {"key":["(secret)"]}');
  });
});
