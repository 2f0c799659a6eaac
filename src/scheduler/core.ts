import type { Sql } from '../durable/ports.ts';
import type { Launches } from './launch-table.ts';
import type { Providers } from './providers.ts';

/** What the parts of the scheduler work on. */
export interface Core {
  sql: Sql;
  /** Epoch ms */
  now(): number;
  /** Ten lower-case letters and digits, at random. */
  newId(): string;
  launches: Launches;
  providers: Providers;
}
