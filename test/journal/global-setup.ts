import { ensureJournalServers } from '../../scripts/journal-servers/setup.ts';

/** Installs the servers before the first file, where its progress shows at once; without them no test passes. */
export default async function setup(): Promise<void> {
  await ensureJournalServers();
}
