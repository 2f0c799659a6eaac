import type { Sql } from '../durable/ports.ts';
import type { ScalingControl } from '../protocol/index.ts';
import type { PoolSpec } from './spec.ts';
import { readState, writeState } from './state-table.ts';

/** An operator's orders for a pool, and the pool's changes since. */
export interface Control {
  control: ScalingControl;
  /** When an operator last resumed or changed the pool, epoch ms: earlier failures no longer count. */
  forgiven_at: number | null;
  /** The number of workers that an operator requested, and until when they are kept. */
  at_least: { workers: number; until: number } | null;
  /** A number that grows with each change of what the pool's workers are started with. */
  revision: number;
  /**
   * The pool's part of the spec when it was taken out of the fleet's file: its workers may still drain when it is put
   * in again.
   */
  removed?: PoolSpec;
}

const UNTOUCHED: Control = { control: 'automatic', forgiven_at: null, at_least: null, revision: 0 };

/** The controls by pool, in one row, which is read once. */
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

  /** @param changes the changes by pool */
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
