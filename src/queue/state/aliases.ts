import { type AliasTable, aliasOf, type Mirror } from '../../aliases/alias.ts';
import { aliasNamed } from '../../aliases/resolve.ts';
import { parseModelAliases } from '../../settings/model-aliases.ts';
import type { Sql } from '../store/ports.ts';

/** A look through pools without workers for jobs whose aliases lead elsewhere. */
interface LookedAt {
  /** The state of workers and aliases in which the look was taken, as a text. */
  state: string;
  /** Epoch ms. */
  at: number;
  /** Whether a job for an alias waits in one of the pools. */
  foundAny: boolean;
  /**
   * The number of jobs of each pool that stayed where they were and are skipped the next time, as the pool has too many
   * for one look.
   */
  stayed: ReadonlyMap<string, number>;
}

/**
 * The names that stand for models: those of the fleet's file, which the fleet object reports and which are kept in one
 * row of `meta`, and those of QUEUE_MODEL_ALIASES, of which the file's go first.
 */
export class Aliases {
  readonly #sql: Sql;
  readonly #configured: AliasTable;
  #text: string;
  #table: AliasTable;
  /** The last look through pools without workers (dispatch/aliased-jobs.ts). */
  looked: LookedAt | null = null;
  /** The number of changes of the table. */
  changes = 0;

  constructor(sql: Sql, configured: string | undefined) {
    this.#sql = sql;
    this.#configured = Object.fromEntries(
      [...parseModelAliases(configured ?? '')].map(([alias, model]) => [alias, aliasOf(model)]),
    );
    this.#text = String(sql.exec(`SELECT value FROM meta WHERE key = 'aliases'`)[0]?.value ?? '{}');
    this.#table = this.#merged();
  }

  get table(): AliasTable {
    return this.#table;
  }

  get isEmpty(): boolean {
    return Object.keys(this.#table).length === 0;
  }

  /** Says whether a name is an alias. */
  has(name: string | null): name is string {
    return name !== null && aliasNamed(this.#table, name) !== undefined;
  }

  mirrorOf(alias: string): Mirror | undefined {
    return aliasNamed(this.#table, alias)?.mirror;
  }

  /** Says whether these are not the aliases of the fleet's file that are in force. */
  differs(told: AliasTable): boolean {
    return JSON.stringify(told) !== this.#text;
  }

  /** Replaces the aliases of the fleet's file. */
  replace(told: AliasTable): void {
    const text = JSON.stringify(told);
    this.#text = text;
    this.#table = this.#merged();
    this.changes += 1;
    this.#sql.exec(
      `INSERT INTO meta (key, value) VALUES ('aliases', ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value`,
      text,
    );
  }

  #merged(): AliasTable {
    return { ...this.#configured, ...(JSON.parse(this.#text) as AliasTable) };
  }
}
