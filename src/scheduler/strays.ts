import type { Sql } from '../durable/ports.ts';

/** A machine under one of our names that no launch wants. It is terminated once it was seen in two lists. */
export interface Stray {
  /** Of its orders; no launch has it. */
  id: string;
  provider: string;
  external_id: string;
  name: string;
  /** As for a launch. */
  host: string | null;
  /** When the first list that showed it was made, epoch ms. */
  first_seen_at: number;
  /** It was seen in a second list. */
  is_sure: boolean;
  order: number;
  order_due_at: number;
  clear_at: number | null;
}

/** In memory as they are in their rows. */
export class Strays {
  readonly #sql: Sql;
  readonly #byKey = new Map<string, Stray>();

  constructor(sql: Sql) {
    this.#sql = sql;
    this.reload();
  }

  /** After a commit that was rolled back. */
  reload(): void {
    this.#byKey.clear();
    for (const row of this.#sql.exec(`SELECT stray FROM stray_machines`)) {
      const stray = strayIn(String(row.stray));
      this.#byKey.set(keyOf(stray), stray);
    }
  }

  all(): Stray[] {
    return [...this.#byKey.values()];
  }

  find(machine: Pick<Stray, 'provider' | 'external_id'>): Stray | null {
    return this.#byKey.get(keyOf(machine)) ?? null;
  }

  save(stray: Stray): void {
    this.#byKey.set(keyOf(stray), stray);
    this.#sql.exec(
      `INSERT INTO stray_machines (provider, external_id, stray) VALUES (?, ?, ?)
       ON CONFLICT (provider, external_id) DO UPDATE SET stray = excluded.stray`,
      stray.provider,
      stray.external_id,
      JSON.stringify(stray),
    );
  }

  remove(stray: Stray): void {
    this.#byKey.delete(keyOf(stray));
    this.#sql.exec(
      `DELETE FROM stray_machines WHERE provider = ? AND external_id = ?`,
      stray.provider,
      stray.external_id,
    );
  }
}

type Seen = Pick<Stray, 'id' | 'provider' | 'external_id' | 'name' | 'first_seen_at'>;

/** Until more is known of it: what a row lacks that an earlier version has written. */
const NOTHING_KNOWN: Omit<Stray, keyof Seen> = {
  host: null,
  is_sure: false,
  order: 0,
  order_due_at: 0,
  clear_at: null,
};

export function newStray(seen: Seen & Pick<Stray, 'host'>): Stray {
  return { ...NOTHING_KNOWN, ...seen };
}

function strayIn(text: string): Stray {
  return { ...NOTHING_KNOWN, ...(JSON.parse(text) as Seen & Partial<Stray>) };
}

function keyOf({ provider, external_id }: Pick<Stray, 'provider' | 'external_id'>): string {
  return JSON.stringify([provider, external_id]);
}
