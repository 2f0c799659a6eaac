import type { LimitView } from '../../src/protocol/index.ts';
import type { Run } from './jobs.ts';
import { BrokenPromise } from './promises.ts';

/** US dollars an hour of each worker's machine. */
export const PRICE = 36;

/** A lost worker's attempts cost until the queue gives them up: a grace, after a restart another one, and an alarm. */
const GIVEN_UP_MS = 15_000;

/** Of a tenant: what is counted at the least and at the most. */
interface Bounds {
  tokens: { least: number; most: number };
  dollars: { least: number; most: number };
}

interface Settled {
  run: Run;
  at: number;
  counts: boolean;
}

/**
 * `budgets`: what budgets have counted at the end is what attempts used whose ends were acknowledged, in tokens and in the
 * time of their slots, once each, however often the queue started again, those that were broken off too. Not known is
 * only what became of attempts whose workers were away when they were broken off, or died: their slots may have cost until the queue gave them up, and what they had told and was not
 * acknowledged may be counted.
 */
export class BudgetPromise {
  readonly #now: () => number;
  readonly #begunAt = new Map<number, { at: number; capacity: number }>();
  readonly #settled = new Map<number, Settled>();
  readonly #bounds = new Map<string, Bounds>();

  constructor(now: () => number) {
    this.#now = now;
  }

  began({ fence }: Run, capacity: number): void {
    this.#begunAt.set(fence, { at: this.#now(), capacity });
  }

  settled(run: Run, counts: boolean): void {
    if (!this.#settled.has(run.fence)) this.#settled.set(run.fence, { run, at: this.#now(), counts });
  }

  acknowledged(fence: number, outcome: unknown): void {
    const settled = this.#settled.get(fence);
    if (!settled) return;
    this.#settled.delete(fence);
    const { run, at, counts } = settled;
    // Told again after a restart it may count until then.
    this.#count(run, at, counts && outcome === 'accepted', this.#now() - at);
  }

  /** Its worker is gone, with what it had told and what it ran. */
  lost(run: Run): void {
    this.#settled.delete(run.fence);
    this.#count(run, this.#now(), false, GIVEN_UP_MS);
  }

  atEnd(standings: readonly LimitView[]): void {
    for (const { token_name, tenant, tokens_per_month, dollars_per_month } of standings) {
      const { tokens, dollars } = this.#bounds.get(token_name) ?? NOTHING;
      const whose = tenant === null ? token_name : `${token_name}, all of its tokens,`;
      const check = (what: string, used: number, { least, most }: Bounds['tokens']) => {
        if (used < least - ROUNDING || used > most + ROUNDING)
          throw new BrokenPromise(
            'budgets',
            `${whose} has ${used} ${what} of its budget, and used ${least} to ${most}`,
          );
      };
      if (tokens_per_month.limit !== null) check('tokens', tokens_per_month.used, tokens);
      if (dollars_per_month.limit !== null) check('dollars', dollars_per_month.used, dollars);
    }
  }

  #count(run: Run, until: number, isKnown: boolean, moreMs: number): void {
    const { at, capacity } = this.#begunAt.get(run.fence)!;
    const { tokens, dollars } = this.#boundsOf(run);
    const used = run.job.input + run.come;
    tokens.most += used;
    dollars.most += dollarsOf(until - at + moreMs, capacity);
    if (!isKnown) return;
    tokens.least += used;
    dollars.least += dollarsOf(until - at, capacity);
  }

  #boundsOf({ job }: Run): Bounds {
    const { name } = job.tenant;
    const bounds = this.#bounds.get(name) ?? structuredClone(NOTHING);
    this.#bounds.set(name, bounds);
    return bounds;
  }
}

const NOTHING: Bounds = { tokens: { least: 0, most: 0 }, dollars: { least: 0, most: 0 } };
/** Each attempt is counted in whole billionths of a dollar. */
const ROUNDING = 1e-5;

function dollarsOf(ms: number, capacity: number): number {
  return (PRICE * ms) / capacity / 3_600_000;
}
