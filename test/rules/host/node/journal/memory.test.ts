import { journalContract } from '../../../../support/journal-contract.ts';
import { JournalServer } from '../../../../support/memory-journal.ts';

// The other tests of this folder rest on this journal.
journalContract('in memory', async () => {
  const server = new JournalServer();
  return { connect: () => server.connect(), remove: async () => {} };
});
