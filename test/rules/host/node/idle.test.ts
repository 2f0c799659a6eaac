import { readdir, readlink } from 'node:fs/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { until } from '../../../support/poll.ts';
import { Held } from './held.ts';

/** Objects in which nothing happens give their descriptors back; two of them may stay open here. */

let held: Held;

beforeEach(async () => {
  held = await Held.make();
  await held.objects.stop();
  held.mostIdle = 2;
  held.start();
});
afterEach(() => held.end());

/** Databases that are open, by their queue ids. Linux alone tells. */
async function open(): Promise<string[]> {
  const descriptors = await readdir('/proc/self/fd');
  const files = await Promise.all(descriptors.map((fd) => readlink(`/proc/self/fd/${fd}`).catch(() => '')));
  const ids = files.flatMap((file) => (file.startsWith(held.dataDir) ? [file.split('/').at(-2)!] : []));
  return [...new Set(ids)].sort();
}

async function use(...queueIds: string[]): Promise<void> {
  for (const id of queueIds) await held.run((object) => object.keep(id), id);
}

const isClosed = (id: string) =>
  until(async () => !(await open()).includes(id), `the object of ${id} is closed`);

describe.runIf(process.platform === 'linux')('objects that are idle', () => {
  it('are closed, those first that have been for longest, and made again by the next call', async () => {
    const ids = Array.from({ length: 40 }, (_, n) => `queue-${n}`);
    await use(...ids);
    await until(async () => (await open()).length <= 2, 'two are open');
    await held.run((object) => object.keep('again'), 'queue-0');
    expect(held.made).toHaveLength(41);
    expect(await held.stub('queue-7').keeps!()).toEqual(['queue-7']);
  });

  it('are made again for their alarms', async () => {
    await held.run((object) => object.host.alarm.set(object.host.now() + 4000), 'with-alarm');
    await use('a', 'b');
    await isClosed('with-alarm');
    await until(() => held.newest.alarms.length > 0, 'the alarm fires');
    expect(held.made.map(([id]) => id)).toEqual(['with-alarm', 'a', 'b', 'with-alarm']);
  });

  it('are not made again for an alarm that failed before its pause is over', async () => {
    const madeAt: number[] = [];
    held.onMake = () => void madeAt.push(performance.now());
    let failedAt = 0;
    await held.run((object) => {
      object.onAlarm = () => {
        failedAt = performance.now();
        throw new Error('not now');
      };
      object.host.alarm.set(object.host.now());
    }, 'with-alarm');
    await until(() => failedAt > 0, 'the alarm fails');
    const queue = held.objects.of('queue', 'with-alarm');
    await until(() => queue.idleSince !== null, 'it is idle');
    queue.closeIdle();
    await until(() => held.newest.alarms.length > 0 && madeAt.length === 2, 'the alarm fires again');
    // The first pause is 2 s long; timers may come a ms early.
    expect(madeAt[1]! - failedAt).toBeGreaterThan(1990);
  });

  it('are made again for their alarms when the clock was set forward', async () => {
    await held.run((object) => object.host.alarm.set(object.host.now() + 3_600_000), 'with-alarm');
    await use('a', 'b');
    await isClosed('with-alarm');
    const realNow = Date.now;
    Date.now = () => realNow() + 3_600_000;
    try {
      held.objects.of('queue', 'with-alarm').armAlarm();
      await until(() => held.newest.alarms.length > 0, 'the alarm fires');
    } finally {
      Date.now = realNow;
    }
  });

  it.each([
    ['a timer', (object: Held['newest']) => object.host.after(3_600_000, () => {})],
    ['work in the background', (object: Held['newest']) => object.host.background(new Promise(() => {}))],
    [
      'an unanswered question',
      (object: Held['newest']) => void object.other('asked').run!(() => new Promise(() => {})),
    ],
  ])('are none with %s', async (_, begin) => {
    await held.run((object) => void begin(object), 'busy');
    await use('a', 'b', 'c', 'd');
    await isClosed('a');
    await use('e');
    await isClosed('c');
    expect(await open()).toContain('busy');
  });

  it('are none with a caller that waits, or with a socket, until it is closed', async () => {
    const answer = Promise.withResolvers<string>();
    const asked = held.stub('asked').run!(() => answer.promise);
    const peer = await held.dial('peer', 'dialled');
    await use('a', 'b', 'c', 'd');
    await isClosed('b');
    expect(await open()).toEqual(expect.arrayContaining(['asked', 'dialled']));
    answer.resolve('late');
    expect(await asked).toBe('late');
    peer.socket.close();
    await until(() => peer.closed, 'the socket is closed');
    await use('e', 'f');
    await isClosed('dialled');
    expect(held.made).toHaveLength(8);
  });

  it('are opened one after the other where many are asked for from outside, and beyond some not at all', async () => {
    await use('a', 'b');
    const ids = Array.from({ length: 100 }, (_, n) => `made-up-${n}`);
    const opened: string[] = [];
    const asked = ids.map((id) =>
      (held.stub(id, null, true).keeps!() as Promise<unknown>).then(
        () => void opened.push(id),
        (error: { overloaded?: true }) => expect(error.overloaded).toBe(true),
      ),
    );
    const others = ids.slice(0, 5).map((id) => held.run((object) => object.keep(id), `others-${id}`));
    // Who has an open object does not wait at all.
    await held.stub('b', null, true).keeps!();
    await Promise.all([...asked, ...others]);
    // At 10 ms each.
    expect(opened.length).toBe(30);
  });

  it('answer every call while they are closed', async () => {
    const ids = ['a', 'b', 'c', 'd', 'e'];
    for (let time = 0; time < 30; time += 1) {
      await use(...ids.map((id) => id));
      for (const id of ids) held.objects.of('queue', id).closeIdle();
      const counts = await Promise.all(
        ids.map((id) =>
          held.run((object) => object.host.sql.exec('DELETE FROM kept RETURNING key').length, id),
        ),
      );
      expect(counts).toEqual(ids.map(() => 1));
    }
  });
});
