import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { FileJournal } from '../../../../../src/host/node/journal/file.ts';
import { journalContract } from '../../../../support/journal-contract.ts';

journalContract('in a folder', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'journal-'));
  return {
    connect: () => new FileJournal(folder),
    remove: () => rm(folder, { recursive: true }),
  };
});
