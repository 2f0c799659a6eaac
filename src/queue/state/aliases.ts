import { type AliasTable, aliasOf, type Mirror } from '../../aliases/alias.ts';
import { aliasNamed } from '../../aliases/resolve.ts';
import { parseModelAliases } from '../../settings/queue-settings.ts';
import type { Sql } from '../store/ports.ts';

/**
 * The names that stand for models: those of the fleet's file, which the fleet object reports and which are kept in one
 * row of `meta`, and those of QUEUE_MODEL_ALIASES, of which the file's go first.
 */
export class Aliases {
  readonly #sql: Sql;
  readonly #configured: AliasTable;
  #text: string;
  #table: AliasTable;
  /** What was as it is when pools without workers were last looked through, and when that was, epoch ms. */
  looked: { state: string; at: number; foundAny: boolean } | null = null;
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
