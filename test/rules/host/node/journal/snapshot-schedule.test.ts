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
