import type { Sql } from '../durable/ports.ts';
import type { Launches } from './launches.ts';
import type { MachineMap } from './machines.ts';
import type { Providers } from './providers.ts';

/** The parts of the scheduler that its functions share. */
export interface Core {
  sql: Sql;
  /** Returns epoch ms. */
  now(): number;
  /** Returns ten random lower-case letters and digits. */
  newId(): string;
  machines: MachineMap;
  launches: Launches;
  providers: Providers;
}
