/** Tokens and requests that were counted, as the gateway asks a queue for them. */

/**
 * The time that attempts held slots, ms; of it that of workers whose price is not known, and what the rest cost, in
 * billionths of a US dollar: sums of whole numbers are exact.
 */
export const SLOT_AMOUNTS = ['slot_ms', 'unpriced_slot_ms', 'nanodollars'] as const;

/** What is counted. Tokens are sums; cached ones are among the input, those of reasoning among the output. */
export const USAGE_AMOUNTS = [
  'requests',
  'succeeded',
  'failed',
  'cancelled',
  'input',
  'cached',
  'output',
  'reasoning',
  'wasted',
  'estimated_requests',
  ...SLOT_AMOUNTS,
] as const;
export type UsageAmounts = Record<(typeof USAGE_AMOUNTS)[number], number>;

/** What it is counted by, beside the time. An empty text: unknown, or none. */
export const USAGE_KEYS = ['tenant', 'token_name', 'config_id', 'model', 'mode'] as const;
/** Values of the key `mode`: a caller waited on a connection, or the job was stored, as a line of a batch or by itself. */
export const USAGE_MODES = ['waiting', 'stored', 'batch'] as const;
export type UsageMode = (typeof USAGE_MODES)[number];
export type UsageKey = Record<(typeof USAGE_KEYS)[number], string>;

/** A sum over rows. Keys that it was not grouped by are missing. */
export interface UsageSum extends UsageAmounts, Partial<UsageKey> {
  /** Epoch s at which its hour or day begins, UTC. */
  start: number;
}

export interface UsageWanted {
  /** Epoch s, the start inclusive, the end exclusive. */
  from: number;
  to: number;
  /** Width of what is summed up, s: 3600 or 86400; of more than HOURS_KEPT_DAYS ago there are only days. */
  width: number;
  groupBy: (keyof UsageKey)[];
  /** Each must be one of these. */
  filter: Partial<Record<keyof UsageKey, string[]>>;
}

/** Hours are kept for this long, so that "today" can be told in any time zone; then they become days of UTC. */
export const HOURS_KEPT_DAYS = 14;
