import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { until } from '../support/poll.ts';
import { type HostUnderTest, type ProbeUnderTest, promisesOfHosts } from './host-under-test.ts';

/** What src/durable/host.ts promises of a process that ends without a word. */

/** Of replies until it is killed, in the middle of the others. */
const REPLIES = [1, 60];
const SIDE_BY_SIDE = 16;

/** Asks side by side until so many have been answered, and then ends the host. @returns keys that were answered */
async function askUntilKilled(
  host: HostUnderTest,
  replies: number,
  ask: (key: string) => Promise<unknown>,
): Promise<string[]> {
  const answered: string[] = [];
  let asked = 0;
  let isOver = false;
  const enough = Promise.withResolvers<void>();
  const askers = Array.from({ length: SIDE_BY_SIDE }, async () => {
    while (!isOver) {
      const key = `key ${String(asked++).padStart(5, '0')}`;
      const isAnswered = await ask(key).then(
        () => true,
        () => false,
      );
      if (!isAnswered) return;
      answered.push(key);
      if (answered.length >= replies) enough.resolve();
    }
  });
  await enough.promise;
  await host.kill();
  isOver = true;
  await Promise.all(askers);
  await host.start();
  return answered;
}

promisesOfHosts((host) => {
  describe('after a kill', () => {
    let probe: ProbeUnderTest;
    beforeEach(() => {
      probe = host.probe();
    });
    // The next test begins with a host that answers.
    afterEach(() => host.probe().ask('who'));

    it.each(REPLIES)('all that was answered is there (%d replies)', async (replies) => {
      const answered = await askUntilKilled(host, replies, (key) => probe.ask('keep', key));
      const kept = await probe.ask('kept');
      expect(answered.length).toBeGreaterThanOrEqual(replies);
      expect(kept).toEqual(expect.arrayContaining(answered));
    });

    it.each(REPLIES)(
      'statements with nothing awaited between them are there both or not at all (%d)',
      async (replies) => {
        const answered = await askUntilKilled(host, replies, (key) => probe.ask('keepPair', key));
        const kept = await probe.ask('kept');
        const halves = kept.filter(
          (key) => !kept.includes(key.replace(/[ab]$/, (end) => (end === 'a' ? 'b' : 'a'))),
        );
        expect(halves).toEqual([]);
        expect(kept).toEqual(expect.arrayContaining(answered.map((key) => `${key}/a`)));
      },
    );

    it.each(REPLIES)('all that another object was asked is there on both sides (%d)', async (replies) => {
      const other = host.probe();
      const answered = await askUntilKilled(host, replies, (key) => probe.ask('keepAndTell', other.id, key));
      const [mine, theirs] = [await probe.ask('kept'), await other.ask('kept')];
      expect(mine).toEqual(expect.arrayContaining(theirs));
      expect(theirs).toEqual(expect.arrayContaining(answered));
    });

    it.each(REPLIES)('all that was sent on a socket is there (%d)', async (replies) => {
      const peer = await probe.open();
      for (let n = 0; n < replies + 50; n += 1) peer.say({ keep: `key ${n}` });
      await peer.next(replies - 1);
      await host.kill();
      await until(() => peer.closed, 'the connection is seen to be gone');
      await host.start();
      expect(await probe.ask('kept')).toEqual(expect.arrayContaining(peer.heard));
    });

    it('all that was answered is there, where the object is busy from then on', async () => {
      const answered = await askUntilKilled(host, 20, (key) => probe.ask('keepAndWork', key));
      expect(await probe.ask('kept')).toEqual(expect.arrayContaining(answered));
    });

    it.each([
      { setFor: 2000, downFor: 2500 },
      { setFor: 4000, downFor: 0 },
    ])(
      'an alarm fires though nobody asks, once: $setFor ms ahead, down for $downFor',
      async ({ setFor, downFor }) => {
        const told = host.probe();
        const set = await probe.ask('wakeAndTell', told.id, setFor);
        await host.kill();
        await sleep(downFor);
        await host.start();
        await until(async () => (await told.ask('kept')).length > 0, 'the alarm has told the other');
        const { fired, next } = await probe.ask('wakes');
        expect([fired.length, next]).toEqual([1, null]);
        // A host may have forgotten the time by then.
        expect([set, null]).toContain(fired[0]);
      },
    );
  });
});
