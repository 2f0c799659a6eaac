import { describe, expect, it } from 'vitest';
import { until } from '../support/poll.ts';
import { promisesOfHosts, Retryable } from './host-under-test.ts';

/** What src/durable/host.ts promises of calls, storage, alarms and timers. */
promisesOfHosts((host) => {
  describe('calls', () => {
    it('reach the object of the id that is meant, whatever it is called', async () => {
      for (const id of ['vllm-queue', 'a b', '..', 'Ä/ö?#%', 'q'.repeat(128)]) {
        const probe = host.probe(id);
        expect((await probe.ask('who')).queueId).toBe(id);
        await probe.ask('keep', id);
        expect(await probe.ask('kept')).toEqual([id]);
      }
    });

    it('are answered with the error that the object throws', async () => {
      const probe = host.probe();
      const { born } = await probe.ask('who');
      await expect(probe.ask('fail', 'it is so')).rejects.toThrow('it is so');
      await expect(probe.ask('fail', 'it is so')).rejects.not.toBeInstanceOf(Retryable);
      expect((await probe.ask('who')).born).toBe(born);
    });

    it('take plain data by value', async () => {
      expect(await host.probe().ask('lend', host.probe().id)).toEqual([['mine'], ['mine', 'theirs']]);
    });
  });

  describe('storage', () => {
    it('reads back what it was given', async () => {
      expect(await host.probe().ask('values')).toEqual(['text', 1.5, null, 3, 2 ** 53 - 1]);
    });

    it('undoes a transaction that throws, and nothing else', async () => {
      const probe = host.probe();
      await probe.ask('keep', 'before');
      expect(await probe.ask('undone', 'within')).toBe('undone');
      await probe.ask('keep', 'after');
      expect(await probe.ask('kept')).toEqual(['after', 'before']);
    });

    it('gathers what is asked at the same time', async () => {
      const probe = host.probe();
      const keys = Array.from({ length: 40 }, (_, n) => `key ${n + 10}`);
      const sizes = await Promise.all(keys.map((key) => probe.ask('gather', key)));
      expect(await probe.ask('kept')).toEqual(keys);
      const groups = sizes.reduce((sum, size) => sum + 1 / size, 0);
      expect(groups).toBeCloseTo(Math.round(groups), 5);
      expect(Math.max(...sizes)).toBeGreaterThan(1);
    });

    it('gives the disk back when it is cleared, and goes on with new tables', async () => {
      const probe = host.probe();
      await probe.ask('keep', 'key');
      await probe.ask('wakeIn', 3_600_000);
      const grown = await probe.ask('grow', 1_000_000);
      expect(grown).toBeGreaterThan(1_000_000);
      expect(await probe.ask('clear')).toBeLessThan(grown / 2);
      expect(await probe.ask('tables')).toEqual(['kept']);
      expect(await probe.ask('kept')).toEqual([]);
      expect(await probe.ask('wakes')).toEqual({ fired: [], next: null });
      await probe.ask('keep', 'later');
      expect(await probe.ask('kept')).toEqual(['later']);
    });

    it('has a clock that does not go back', async () => {
      const { went, behind } = await host.probe().ask('clock');
      expect(went).toBeGreaterThanOrEqual(0);
      expect(Math.abs(behind)).toBeLessThan(1000);
    });
  });

  describe('a restart of the object', () => {
    it('undoes what was not committed, and whoever asked may ask again', async () => {
      const probe = host.probe();
      await probe.ask('keep', 'before');
      const { born } = await probe.ask('who');
      const waiting = probe.ask('hang');
      const [asked, waited] = await Promise.allSettled([probe.ask('keepAndRestart', 'lost'), waiting]);
      for (const each of [asked, waited])
        expect(each).toMatchObject({ status: 'rejected', reason: expect.any(Retryable) });
      expect(await probe.ask('kept')).toEqual(['before']);
      expect((await probe.ask('who')).born).not.toBe(born);
    });

    it('ends its timers, and leaves its alarm', async () => {
      const probe = host.probe();
      const set = await probe.ask('wakeIn', 1500);
      await probe.ask('keepLaterAndRestart', 'lost', 100).catch(() => {});
      await until(async () => (await probe.ask('wakes')).fired.length > 0, 'the alarm fires');
      expect(await probe.ask('wakes')).toEqual({ fired: [set], next: null });
      expect(await probe.ask('kept')).toEqual([]);
    });

    it('leaves other objects alone', async () => {
      const [probe, other] = [host.probe(), host.probe()];
      const { born } = await other.ask('who');
      await probe.ask('keepAndRestart', 'lost').catch(() => {});
      expect((await other.ask('who')).born).toBe(born);
    });
  });

  describe('timers and alarms', () => {
    it('fire once', async () => {
      const probe = host.probe();
      await probe.ask('keepNeverLater', 'taken back', 50);
      await probe.ask('keepLater', 'later', 100);
      const set = await probe.ask('wakeIn', 100);
      await until(async () => (await probe.ask('kept')).length > 0, 'the timer has fired');
      await until(async () => (await probe.ask('wakes')).fired.length > 0, 'the alarm has fired');
      const again = await probe.ask('wakeIn', 100);
      await until(async () => (await probe.ask('wakes')).fired.length > 1, 'the second has fired');
      expect(await probe.ask('wakes')).toEqual({ fired: [set, again], next: null });
      expect(await probe.ask('kept')).toEqual(['later']);
    });

    it('fire at the last time that was set, and not when they are taken back', async () => {
      const probe = host.probe();
      await probe.ask('wakeIn', 3_600_000);
      const set = await probe.ask('wakeIn', 100);
      await until(async () => (await probe.ask('wakes')).fired.length > 0, 'the alarm has fired');
      await probe.ask('wakeNever', 100);
      await probe.ask('keepLater', 'later than that', 400);
      await until(async () => (await probe.ask('kept')).length > 0, 'it would have fired');
      expect(await probe.ask('wakes')).toEqual({ fired: [set], next: null });
    });

    it('fire at once for a time that is over', async () => {
      const probe = host.probe();
      const set = await probe.ask('wakeIn', -5000);
      await until(async () => (await probe.ask('wakes')).fired.length > 0, 'the alarm has fired');
      expect((await probe.ask('wakes')).fired).toEqual([set]);
    });

    it('fire again after a failure', async () => {
      const probe = host.probe();
      await probe.ask('failWakes', 1);
      await probe.ask('wakeIn', 10);
      await until(async () => (await probe.ask('wakes')).fired.length > 0, 'the alarm has fired');
      expect((await probe.ask('wakes')).next).toBeNull();
    });
  });

  it('work in the background that fails ends nothing', async () => {
    const probe = host.probe();
    const { born } = await probe.ask('who');
    await probe.ask('failInBackground');
    await probe.ask('keep', 'after');
    expect((await probe.ask('who')).born).toBe(born);
  });
});
