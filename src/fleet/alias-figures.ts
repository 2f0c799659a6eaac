import type { AliasTable } from '../aliases/alias.ts';
import { targetsOf } from '../aliases/resolve.ts';
import { type AliasRow, FIRST_TOKEN_BOUNDS, type RequestRecord } from '../protocol/index.ts';
import { addTo, type Buckets, bucketOf, MINUTE_MS, percentilesOf } from './history/chunk.ts';

/** The figures of one model's answers to an alias's requests in one minute. */
interface Minute {
  /** The number of the minute since 1970. */
  minute: number;
  requests: number;
  errors: number;
  /** The requests that came since the model before did not take them. */
  fell: number;
  firstTokens: Buckets;
}

/** A model of an alias, and what it answered lately. */
interface Answered {
  alias: string;
  model: string;
  is_mirror: boolean;
  minutes: Minute[];
}

/** The minutes that figures look back on, the running one included. */
const MINUTES = 10;
/** The refusals for want of a worker or slot, which say something of the model. A limit says something of a caller. */
const FOR_WANT_OF_ROOM = new Set(['no_worker', 'unknown_model', 'queue_full', 'no_slot']);

/**
 * Figures of aliases over the last ten minutes, by the model at which their requests ended, so that the models can be
 * compared. They are in memory alone: after a restart they begin anew.
 */
export class AliasFigures {
  readonly #answered = new Map<string, Answered>();

  add(ended: readonly RequestRecord[], now: number): void {
    for (const record of ended) if (record.alias != null) this.#add(record.alias, record, now);
  }

  /**
   * Returns a row for each alias that the table has or that was asked for lately, with each of its models, also those
   * that got nothing: a model that is down has to be seen.
   * @param now epoch ms
   */
  rows(table: AliasTable, now: number): AliasRow[] {
    const shown = new Map<string, Answered>();
    for (const [alias, { mirror }] of Object.entries(table)) {
      const targets = targetsOf(table, alias).map((model) => ({ model, is_mirror: false }));
      for (const one of [...targets, ...(mirror ? [{ model: mirror.model, is_mirror: true }] : [])]) {
        const key = keyOf(alias, one.model, one.is_mirror);
        shown.set(key, this.#answered.get(key) ?? { alias, ...one, minutes: [] });
      }
    }
    for (const [key, one] of this.#answered) if (!shown.has(key)) shown.set(key, one);
    const first = minuteOf(now) - MINUTES + 1;
    const recent = [...shown.values()]
      .map((one) => ({ ...one, minutes: one.minutes.filter(({ minute }) => minute >= first) }))
      .filter(({ alias, minutes }) => minutes.length > 0 || Object.hasOwn(table, alias));
    return [...Map.groupBy(recent, ({ alias }) => alias)]
      .sort(([one], [other]) => (one < other ? -1 : 1))
      .map(([alias, models]) => rowOf(alias, models));
  }

  /** Forgets the models that have answered nothing for ten minutes. @param now epoch ms */
  bound(now: number): void {
    const first = minuteOf(now) - MINUTES + 1;
    for (const [key, { minutes }] of this.#answered)
      if (minutes.at(-1)!.minute < first) this.#answered.delete(key);
  }

  #add(alias: string, record: RequestRecord, now: number): void {
    const { model, fallback, outcome, error_code, stands_for: count, first_token_ms: firstToken } = record;
    if (outcome === 'cancelled') return;
    if (outcome === 'rejected' && !FOR_WANT_OF_ROOM.has(error_code ?? '')) return;
    const isMirror = fallback === 'mirror';
    const minute = this.#minute(alias, model, isMirror, now);
    minute.requests += count;
    // A status of 4xx is the caller's mistake.
    if (outcome !== 'succeeded' && !/^http_4/.test(error_code ?? '')) minute.errors += count;
    if (fallback != null && !isMirror) minute.fell += count;
    if (outcome === 'succeeded' && firstToken !== null)
      addTo(minute.firstTokens, { [bucketOf(FIRST_TOKEN_BOUNDS, firstToken)]: count });
  }

  #minute(alias: string, model: string, is_mirror: boolean, now: number): Minute {
    const key = keyOf(alias, model, is_mirror);
    const answered = this.#answered.get(key) ?? { alias, model, is_mirror, minutes: [] };
    this.#answered.set(key, answered);
    const number = minuteOf(now);
    const last = answered.minutes.at(-1);
    if (last?.minute === number) return last;
    const minute = { minute: number, requests: 0, errors: 0, fell: 0, firstTokens: {} };
    answered.minutes.push(minute);
    if (answered.minutes.length > MINUTES) answered.minutes.shift();
    return minute;
  }
}

function rowOf(alias: string, models: readonly Answered[]): AliasRow {
  const own = models.filter(({ is_mirror }) => !is_mirror).flatMap(({ minutes }) => minutes);
  const all = sum(own.map(({ requests }) => requests));
  return {
    alias,
    models: models.map(({ model, is_mirror, minutes }) => {
      const firstTokens: Buckets = {};
      for (const minute of minutes) addTo(firstTokens, minute.firstTokens);
      const percentiles = percentilesOf(firstTokens, FIRST_TOKEN_BOUNDS);
      const requests = sum(minutes.map((minute) => minute.requests));
      return {
        model,
        is_mirror,
        requests,
        share: is_mirror || all === 0 ? null : requests / all,
        errors: sum(minutes.map(({ errors }) => errors)),
        fell: sum(minutes.map(({ fell }) => fell)),
        first_token_p50_ms: percentiles?.p50 ?? null,
        first_token_p95_ms: percentiles?.p95 ?? null,
      };
    }),
  };
}

function keyOf(alias: string, model: string, isMirror: boolean): string {
  return JSON.stringify([alias, model, isMirror]);
}

function minuteOf(now: number): number {
  return Math.floor(now / MINUTE_MS);
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
