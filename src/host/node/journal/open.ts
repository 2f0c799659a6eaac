import { fileURLToPath } from 'node:url';
import { UserError } from '../../../process/index.ts';
import { FileJournal } from './file.ts';
import type { Journal } from './journal.ts';

const postgres = async (address: string) => new (await import('./postgres.ts')).PostgresJournal(address);

/** Makes the journal of each scheme. A client of a server is loaded only if its scheme is used. */
const SCHEMES: Record<string, (address: string) => Promise<Journal>> = {
  file: async (address) => new FileJournal(pathOf(address)),
  postgres,
  postgresql: postgres,
  s3: async (address) => new (await import('./s3.ts')).S3Journal(address),
};

/**
 * Makes the journal at an address, which is not connected yet.
 * @param address `file:PATH`, `postgres://USER:PASSWORD@HOST:PORT/DATABASE` or `s3://BUCKET/PREFIX`
 * @throws UserError if the address has another form
 */
export async function journalAt(address: string): Promise<Journal> {
  const scheme = /^([a-z0-9]+):/.exec(address)?.[1] ?? '';
  const make = SCHEMES[scheme];
  if (make) return await make(address);
  const known = Object.keys(SCHEMES).map((name) => `${name}:`);
  throw new UserError(
    `The address of the journal (QUEUE_JOURNAL or --journal) begins with none of ${known.join(', ')}.`,
  );
}

function pathOf(address: string): string {
  return address.startsWith('file://') ? fileURLToPath(address) : address.slice('file:'.length);
}
