import { expect, it } from 'vitest';
import { SnapshotSchedule } from '../../../../../src/host/node/journal/snapshot-schedule.ts';
import { JournalServer } from '../../../../support/memory-journal.ts';

it('a snapshot that was not stored is not begun again at once', async () => {
  let tries = 0;
  const schedule = new SnapshotSchedule(
    new JournalServer().connect(),
    { entries: 1, ms: 0 },
    {
      place: () => ({ seq: 9, epoch: 1 }),
      save: async () => {
        tries += 1;
        throw new Error('the disk is full');
      },
      log: () => {},
    },
  );
  await schedule.look();
  await schedule.look();
  schedule.end();
  expect(tries).toBe(1);
});

it('a snapshot that is stored counts, though what is old cannot be removed', async () => {
  const told: string[] = [];
  const journal = new JournalServer().connect();
  journal.trim = async () => {
    throw new Error('the connection broke');
  };
  const schedule = new SnapshotSchedule(
    journal,
    { entries: 1, ms: 60_000 },
    {
      place: () => ({ seq: 9, epoch: 1 }),
      save: async () => ({ seq: 9, epoch: 1 }),
      log: (level, message) => level === 'warn' && told.push(message),
    },
  );
  await schedule.look();
  schedule.end();
  expect(told).toEqual(['old entries of the journal were not removed; the next snapshot removes them']);
});
