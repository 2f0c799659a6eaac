import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { FileJournal } from '../../../../../src/host/node/journal/file.ts';
import { journalContract } from '../../../../support/journal-contract.ts';

journalContract('in a folder', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'journal-'));
  return {
    connect: () => new FileJournal(folder),
    remove: () => rm(folder, { recursive: true }),
  };
});

it('a lease in a folder is over where the clock was set back meanwhile', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'journal-'));
  const journal = new FileJournal(folder);
  await journal.open();
  await journal.renewLease({ epoch: 1, address: 'one' }, 3000);
  expect(await journal.lease()).toMatchObject({ isAlive: true });
  const path = join(folder, 'lease.json');
  const stored = JSON.parse(await readFile(path, 'utf8'));
  await writeFile(path, JSON.stringify({ ...stored, until: stored.until + 3_600_000 }));
  expect(await journal.lease()).toMatchObject({ isAlive: false });
  await rm(folder, { recursive: true });
});
