/**
 * The reasons why a request goes on to the next step of an alias: the step has no worker that is ready or could be
 * started; too many requests wait for it; its start takes too long; its attempts failed; or the request is longer than
 * its model takes.
 */
export const CAUSES = ['no_worker', 'queue_full', 'starting_over', 'failed', 'too_long'] as const;
export type Cause = (typeof CAUSES)[number];

/** A cause that an alias allows; `starting_over` says after how many seconds of a start the request goes on. */
export type On = Exclude<Cause, 'starting_over'> | { starting_over: number };

/** One of the models among which an alias divides its requests. */
export interface Target {
  model: string;
  weight: number;
}

/** A name that callers may ask for in place of a model: the models among which it divides requests, and their order. */
export interface Alias {
  /** The requests that stay with one model: those of a conversation, those of a tenant, or each by itself. */
  split: { by: 'session' | 'tenant' | 'request' };
  to: readonly Target[];
  /** The models to which requests go that those of `to` do not take, in order. */
  then: readonly (string | { external: string })[];
  /** The causes that let a request go on to the next step. */
  on: readonly On[];
  /** The model that gets copies of requests, whose answers are thrown away. */
  mirror?: Mirror | undefined;
}

/** A model that gets copies of a share of the requests. */
export interface Mirror {
  model: string;
  /** From 0 to 1. */
  share: number;
}

export type AliasTable = Readonly<Record<string, Alias>>;

/** Aliases of aliases may be nested this deep. */
export const MOST_DEPTH = 4;

/** Makes an alias that always means this one model. */
export function aliasOf(model: string): Alias {
  return { split: { by: 'request' }, to: [{ model, weight: 1 }], then: [], on: [] };
}

/** Returns the model that a fall-back names. */
export function modelOf(step: Alias['then'][number]): string {
  return typeof step === 'string' ? step : step.external;
}
