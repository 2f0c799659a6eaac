import type { Sql } from '../durable/ports.ts';
import type { ScalingControl } from '../protocol/index.ts';
import type { ConfigSpec } from './spec.ts';
import { readState, writeState } from './state-table.ts';

/** What operators have said of a config, and what has changed of it. */
export interface Control {
  control: ScalingControl;
  /** When it was resumed or changed: failures before then no longer count. */
  forgiven_at: number | null;
  /** Asked for by hand, until then. */
  at_least: { workers: number; until: number } | null;
  /** Grows when what its workers are started with changes. */
  revision: number;
  /** What it was when it was taken out of the fleet's file: its workers may still drain when it is put in again. */
  removed?: ConfigSpec;
}

const UNTOUCHED: Control = { control: 'automatic', forgiven_at: null, at_least: null, revision: 0 };

/** By config, in one row. */
export class Controls {
  readonly #sql: Sql;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  of(configId: string): Control {
    return this.#all()[configId] ?? UNTOUCHED;
  }

  change(configId: string, change: Partial<Control>): void {
    const all = this.#all();
    writeState(this.#sql, 'controls', { ...all, [configId]: { ...UNTOUCHED, ...all[configId], ...change } });
  }

  /** The clock was set back. */
  moveBack(byMs: number): void {
    for (const [configId, { forgiven_at, at_least }] of Object.entries(this.#all())) {
      this.change(configId, {
        forgiven_at: forgiven_at === null ? null : forgiven_at - byMs,
        at_least: at_least && { ...at_least, until: at_least.until - byMs },
      });
    }
  }

  #all(): Record<string, Control> {
    return readState(this.#sql, 'controls') ?? {};
  }
}
