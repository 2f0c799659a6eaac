import type { FakeProvider } from '../support/fakes/fake-provider.ts';
import type { FleetPlan } from './plan.ts';

const HOUR_MS = 3_600_000;

/**
 * What the providers charge on the one day of a run, from the start of a container to the end that they tell, against the
 * budget of a day.
 */
export class Spend {
  readonly #providers: readonly FakeProvider[];
  /** Infinite: there is none. */
  readonly #limit: number;
  /** Else what it takes to be today may be yesterday, and its books say that what runs has run for longer. */
  readonly #isClockSound: boolean;
  /** What went beyond the limit while nobody could help it is not held against the rest. */
  #allowed: number;

  constructor({ spec, faults }: FleetPlan, providers: Record<string, FakeProvider>) {
    this.#providers = Object.values(providers);
    this.#isClockSound = !faults.some(({ kind }) => kind.startsWith('clock_'));
    this.#limit = spec.budget.per_day ?? Number.POSITIVE_INFINITY;
    this.#allowed = this.#limit;
  }

  /** Whether more is spent than may be. */
  isBeyond(now: number, isCalm: boolean): boolean {
    if (this.#limit === Number.POSITIVE_INFINITY || !this.#isClockSound) return false;
    const spent = this.#dollars(now);
    if (!isCalm) this.#allowed = Math.max(this.#limit, spent);
    return spent > this.#allowed;
  }

  /** Whether it may not pay for another half an hour. @param perHour US dollars of what runs and one more */
  isUsedUp(now: number, perHour: number): boolean {
    if (this.#limit === Number.POSITIVE_INFINITY) return false;
    return !this.#isClockSound || this.#dollars(now) + perHour / 2 > this.#limit;
  }

  #dollars(now: number): number {
    let dollars = 0;
    for (const { machines } of this.#providers) {
      for (const { name, price, startedAt, ended, gone } of machines) {
        if (name.startsWith('wv-foreign')) continue;
        const until = Math.min(ended?.at ?? now, gone?.at ?? now);
        dollars += (Math.max(0, until - startedAt) / HOUR_MS) * price;
      }
    }
    return dollars;
  }
}
