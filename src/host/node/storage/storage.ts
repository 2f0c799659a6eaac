import type { Row, Sql, SqlValue } from '../../../durable/ports.ts';
import type { KeptAlarm, ObjectAlarm } from './alarm.ts';

/**
 * The storage of one life of an object, from `begin` of its database until `undo`, after which it refuses every
 * statement.
 */
export interface ObjectStorage {
  readonly sql: Sql;
  readonly alarm: ObjectAlarm;
  /** Runs synchronous work and undoes its writes if it throws; the error is rethrown. */
  transaction<T>(work: () => T): T;
  /** Does what `ObjectHost` says, and also waits for room in the log. Never resolves once this life has ended. */
  gathered(): Promise<void>;
  /** Returns the size of the database, bytes. */
  databaseBytes(): number;
  /**
   * Deletes every table and the alarm, has the tables made again, and returns the space to the disk, all in one turn.
   */
  clear<T>(remake: () => T): T;
}

/** The parts of a database that the living object uses. */
interface LivingPorts {
  /** Checks that this life has not ended. @throws Error if it has */
  check(): void;
  exec(query: string, bindings: readonly SqlValue[]): Row[];
  transaction<T>(work: () => T): T;
  gathered(): Promise<void>;
  clear<T>(remake: () => T): T;
}

/** Hands a database to one life of its object. */
export function storageOf(alarm: KeptAlarm, ports: LivingPorts): ObjectStorage {
  /** Makes a call that throws once this life has ended. */
  const whileAlive = <Asked extends unknown[], T>(act: (...asked: Asked) => T) => {
    return (...asked: Asked): T => {
      ports.check();
      return act(...asked);
    };
  };
  const sql: Sql = {
    exec(query: string, ...bindings: SqlValue[]) {
      ports.check();
      return ports.exec(query, bindings);
    },
  };
  return {
    sql,
    alarm: {
      get: () => alarm.get(),
      set: whileAlive((atMs: number) => alarm.set(atMs)),
      clear: whileAlive(() => alarm.clear()),
      fires: whileAlive(() => alarm.fires()),
      fired: whileAlive(() => alarm.fired()),
      failed: () => alarm.failed(),
    },
    transaction<T>(work: () => T): T {
      ports.check();
      return ports.transaction(work);
    },
    databaseBytes() {
      const [size] = sql.exec(
        `SELECT page_count * page_size AS bytes FROM pragma_page_count, pragma_page_size`,
      );
      return Number(size!.bytes);
    },
    clear<T>(remake: () => T): T {
      ports.check();
      return ports.clear(remake);
    },
    async gathered() {
      try {
        await ports.gathered();
        ports.check();
      } catch {
        await new Promise(() => {});
      }
    },
  };
}
