import { NANODOLLARS, type Usage } from '../../protocol/index.ts';
import type { UsageAmounts } from '../rpc.ts';
import type { Priced } from '../store/session-table.ts';

/** The amounts that attempts and their requests count as. Nothing here reads or writes. */

/** The ends of a request, as usage counts them. */
export type CountedAs = 'succeeded' | 'failed' | 'cancelled';

/**
 * Returns the request and tokens that an ended job counts as.
 * @param ran whether the attempt may have used something that was not reported
 * @param isCallers whether the caller ended the job, or its deadline did
 */
export function amountsOf(
  as: CountedAs,
  usage: Usage | undefined,
  ran: boolean,
  isCallers: boolean,
): Partial<UsageAmounts> {
  const request = { requests: 1, [as]: 1 };
  if (usage === undefined) return { ...request, estimated_requests: isCallers && ran ? 1 : 0 };
  if (as === 'failed' && !isCallers) return { ...request, wasted: tokensOf(usage) };
  return { ...request, ...tokenAmounts(usage), estimated_requests: usage.estimated ? 1 : 0 };
}

/** Returns the amounts of tokens that an engine or a worker reported. */
export function tokenAmounts(usage: Usage) {
  const { prompt_tokens: input, completion_tokens: output } = usage;
  return {
    input,
    output,
    cached: Math.min(usage.cached_tokens ?? 0, input),
    reasoning: Math.min(usage.reasoning_tokens ?? 0, output),
  };
}

/** Returns the tokens of prompt and answer together; 0 where none were reported. */
export function tokensOf(usage: Usage | undefined): number {
  return usage === undefined ? 0 : usage.prompt_tokens + usage.completion_tokens;
}

const HOUR_MS = 3_600_000;

/** Returns the amounts of the time for which a slot was held. @param of the worker's price; null: it is not known */
export function slotAmounts(ms: number, of: Priced | null): Partial<UsageAmounts> {
  const slot_ms = Math.max(0, Math.round(ms));
  if (!of || of.price_per_hour === null || of.capacity === 0) return { slot_ms, unpriced_slot_ms: slot_ms };
  return {
    slot_ms,
    nanodollars: Math.round((of.price_per_hour * NANODOLLARS * slot_ms) / of.capacity / HOUR_MS),
  };
}
