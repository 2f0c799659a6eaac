import type { FilteredRequest } from '../../asking/filters.ts';
import { QUEUE_SETTINGS, type QueueSettingBindings } from '../../settings/queue-settings.ts';
import type { KeptSettings } from './object/object.ts';

/** Reads the settings of the object from the bindings of its host. */
export function keptSettings(bindings: QueueSettingBindings): KeptSettings {
  const { KEEP_REQUESTS_SECONDS: seconds, KEEP_REQUESTS_BYTES: bytes } = bindings;
  return {
    retentionMs: Number(seconds || QUEUE_SETTINGS.keep_requests_seconds.default) * 1000,
    mostBytes: Number(bytes || QUEUE_SETTINGS.keep_requests_bytes.default),
  };
}

/**
 * Returns the share of requests that is kept unless their token says something else, from 0 (only by token) to 1;
 * null: nothing is kept, whatever tokens say.
 */
export function keptShare({ KEEP_REQUESTS: keep = 'off' }: QueueSettingBindings): number | null {
  if (keep === 'off') return null;
  if (keep === 'by-token') return 0;
  return keep === 'all' ? 1 : Number(keep);
}

/**
 * Says whether a request is kept.
 * @param keep whether its token wanted that when it came; null: it has none, or it said nothing
 * @param share the share of requests that is kept unless their token says something else
 */
export function isKept({ jobId, keep }: Pick<FilteredRequest, 'jobId' | 'keep'>, share: number): boolean {
  return keep ?? placeOf(jobId) < share;
}

/** Returns a number from 0 to 1, exclusive, that is the same each time for an id: FNV-1a of its characters. */
function placeOf(id: string): number {
  let hash = 0x811c9dc5;
  for (let index = 0; index < id.length; index += 1)
    hash = Math.imul(hash ^ id.charCodeAt(index), 0x01000193) >>> 0;
  // The last characters change only the low bits of the product.
  hash = Math.imul(hash ^ (hash >>> 15), 0x85ebca6b) >>> 0;
  return ((hash ^ (hash >>> 13)) >>> 0) / 2 ** 32;
}
