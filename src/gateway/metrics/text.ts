import manifest from '../../../package.json' with { type: 'json' };

import type { Env } from '../env.ts';
import { callFleet, callQueue } from '../objects/calls.ts';
import { exposition } from './exposition.ts';
import { families } from './families.ts';

/** A scraper that asks again within this many ms gets the same text. */
const KEPT_MS = 1000;

/** The newest text by queue id. */
const kept = new Map<string, { at: number; text: string }>();

/** Returns the answer to `GET /metrics` of a queue, from one call of each of its two objects. */
export async function metricsText(env: Env, queueId: string): Promise<string> {
  const now = Date.now();
  for (const [id, { at }] of kept) if (now - at >= KEPT_MS || at > now) kept.delete(id);
  const known = kept.get(queueId);
  if (known) return known.text;
  const [queue, fleet] = await Promise.all([
    callQueue(env, queueId, (queue) => queue.metrics()),
    callFleet(env, queueId, (fleet) => fleet.view()),
  ]);
  const text = exposition(families(queue, fleet, manifest.version));
  kept.set(queueId, { at: Date.now(), text });
  return text;
}
