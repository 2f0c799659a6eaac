import type { Sql } from '../store/ports.ts';
import { latestSettlement } from '../store/settlements-table.ts';

/** A call that waits for the next settlement. */
export interface SettlementWait {
  tenant: string | null;
  /** Epoch ms at which it is answered in any case. */
  until: number;
  answer(): void;
}

/** The numbers of settlements, and the calls that wait for the next one. */
export class Settlements {
  /** Of the newest. */
  latest: number;
  #waits: SettlementWait[] = [];
  #hasNews = false;

  constructor(sql: Sql) {
    this.latest = latestSettlement(sql);
  }

  /** The number of a settlement that is written now. */
  next(): number {
    this.#hasNews = true;
    this.latest += 1;
    return this.latest;
  }

  get waits(): readonly SettlementWait[] {
    return this.#waits;
  }

  add(wait: SettlementWait): void {
    this.#waits.push(wait);
  }

  /** At the end of a command: each call that waits looks once, however many settlements there were. */
  tell(): void {
    if (!this.#hasNews) return;
    this.#hasNews = false;
    this.#answer(() => true);
  }

  /** @param now epoch ms */
  expire(now: number): void {
    this.#answer(({ until }) => until <= now);
  }

  /** Epoch ms at which `expire` has something to do; null: never. */
  get soonest(): number | null {
    if (this.#waits.length === 0) return null;
    return this.#waits.reduce((soonest, { until }) => Math.min(soonest, until), Number.POSITIVE_INFINITY);
  }

  #answer(isDue: (wait: SettlementWait) => boolean): void {
    const due = this.#waits.filter(isDue);
    if (due.length === 0) return;
    this.#waits = this.#waits.filter((wait) => !isDue(wait));
    for (const wait of due) wait.answer();
  }
}
