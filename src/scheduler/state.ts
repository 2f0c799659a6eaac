import type { Sql } from '../durable/ports.ts';
import type { ScalingControl } from '../protocol/index.ts';

/**
 * The scheduler's tables in the database of the fleet object. Each launch and each machine is a row of JSON, since they
 * are only read whole.
 */
export const SCHEDULER_TABLES: readonly string[] = [
  // Values by name: the spec in force, the installation, the secret of tokens, operators' orders, the pools' versions,
  // the rule's state.
  `CREATE TABLE scheduler (
     name TEXT PRIMARY KEY,
     value TEXT NOT NULL
   ) WITHOUT ROWID`,
  `CREATE TABLE launches (
     id TEXT PRIMARY KEY,
     launch TEXT NOT NULL
   ) WITHOUT ROWID`,
  // The cost of launches that have ended, US dollars, by the day (UTC, epoch ms of its midnight).
  `CREATE TABLE launch_spend (
     day INTEGER NOT NULL,
     config_id TEXT NOT NULL,
     dollars REAL NOT NULL,
     PRIMARY KEY (day, config_id)
   ) WITHOUT ROWID`,
];

/** @returns what is stored under a name, or null */
export function readState<T>(sql: Sql, name: string): T | null {
  const row = sql.exec(`SELECT value FROM scheduler WHERE name = ?`, name)[0];
  return row ? (JSON.parse(String(row.value)) as T) : null;
}

export function writeState(sql: Sql, name: string, value: unknown): void {
  sql.exec(
    `INSERT INTO scheduler (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value`,
    name,
    JSON.stringify(value),
  );
}

export function removeState(sql: Sql, name: string): void {
  sql.exec(`DELETE FROM scheduler WHERE name = ?`, name);
}

/** Stores random names that the scheduler makes once. */
export class Secrets {
  readonly #sql: Sql;
  readonly #randomName: (length: number) => string;

  constructor(sql: Sql, randomName: (length: number) => string) {
    this.#sql = sql;
    this.#randomName = randomName;
  }

  /** The installation's id, which tells the machines of this queue from those of others at the same provider. */
  get installation(): string {
    return this.#kept('installation', 8);
  }

  /** The key of the tokens of launched workers. */
  get token(): string {
    return this.#kept('token_secret', 50);
  }

  #kept(name: string, length: number): string {
    const known = readState<string>(this.#sql, name);
    if (known !== null) return known;
    const made = this.#randomName(length);
    writeState(this.#sql, name, made);
    return made;
  }
}

/** An operator's orders for a pool, and the pool's changes since. */
export interface Control {
  control: ScalingControl;
  /** When an operator last resumed or changed the pool, epoch ms: earlier failures no longer count. */
  forgiven_at: number | null;
  /** The number of workers that an operator requested, and until when they are kept; null: none was requested. */
  at_least: { workers: number; until: number } | null;
}

const UNTOUCHED: Control = { control: 'automatic', forgiven_at: null, at_least: null };

/** Stores the controls by pool, in one row, which is read once. */
export class Controls {
  readonly #sql: Sql;
  #known: Record<string, Control> | null = null;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  of(configId: string): Control {
    return { ...UNTOUCHED, ...this.#all()[configId] };
  }

  change(configId: string, change: Partial<Control>): void {
    this.changeAll(new Map([[configId, change]]));
  }

  /** Changes the controls of several pools. @param changes the changes by pool */
  changeAll(changes: ReadonlyMap<string, Partial<Control>>): void {
    if (changes.size === 0) return;
    const all = { ...this.#all() };
    for (const [id, change] of changes) all[id] = { ...UNTOUCHED, ...all[id], ...change };
    writeState(this.#sql, 'controls', all);
    this.#known = all;
  }

  /** Moves all times back after the clock was set back. */
  moveBack(byMs: number): void {
    this.changeAll(
      new Map(
        Object.entries(this.#all()).map(([id, { forgiven_at, at_least }]) => [
          id,
          {
            forgiven_at: forgiven_at === null ? null : forgiven_at - byMs,
            at_least: at_least && { ...at_least, until: at_least.until - byMs },
          },
        ]),
      ),
    );
  }

  /** Forgets what was read, after a commit was rolled back. */
  reload(): void {
    this.#known = null;
  }

  #all(): Record<string, Control> {
    this.#known ??= readState(this.#sql, 'controls') ?? {};
    return this.#known;
  }
}
