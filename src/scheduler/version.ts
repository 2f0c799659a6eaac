import { sha256 } from '@noble/hashes/sha2.js';
import { bytesToHex } from '@noble/hashes/utils.js';
import type { PoolSpec } from './spec.ts';

/**
 * The version of a launch: a short hash of all that its worker is started with. Workers of equal versions are alike, so
 * a pool's rollout replaces those of any version but the wanted one. What a pool costs, where it runs and how many
 * workers it has is no part of it.
 */

/** The part of a pool's spec that a worker is started with. */
export type StartedWith = Pick<PoolSpec, (typeof STARTED_WITH)[number]>;

/** The fields of a pool that its workers are started with: a change of one is another version. */
const STARTED_WITH = [
  'engine',
  'model',
  'image',
  'env',
  'secrets',
  'slots',
  'adapters',
  'revision',
] as const satisfies (keyof PoolSpec)[];

/** The characters of a version. */
const LENGTH = 10;

export function startedWith(pool: StartedWith): StartedWith {
  return Object.fromEntries(
    STARTED_WITH.flatMap((field) => (pool[field] === undefined ? [] : [[field, pool[field]]])),
  ) as StartedWith;
}

/**
 * Returns the version of workers that are started with this.
 * @param anew how often an operator has started the same once more
 */
export function versionOf(pool: StartedWith, anew = 0): string {
  const given = startedWith(pool);
  const whole = { ...given, secrets: [...given.secrets].sort(), ...(anew > 0 && { anew }) };
  // The hash of `crypto.subtle` is asynchronous, and the scheduler's commits are not.
  const hash = sha256(new TextEncoder().encode(JSON.stringify(sorted(whole))));
  return bytesToHex(hash).slice(0, LENGTH);
}

/** Returns a value whose objects have their keys in order. */
function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (value === null || typeof value !== 'object') return value;
  return Object.fromEntries(
    Object.entries(value)
      .sort(([one], [other]) => (one < other ? -1 : 1))
      .map(([key, of]) => [key, sorted(of)]),
  );
}

/** The most characters of a value in words. */
const MOST_CHARS = 60;

/** Says in one line what a version is started with that differs from the version before. */
export function differenceInWords(after: StartedWith, before: StartedWith | null): string {
  if (!before) return `${after.model}${after.image === undefined ? '' : `, image ${after.image}`}`;
  const changes = STARTED_WITH.flatMap((field) => {
    if (field === 'env') return envInWords(after.env, before.env);
    const [to, from] = [after[field], before[field]];
    if (JSON.stringify(to) === JSON.stringify(from)) return [];
    return `${field} ${valueInWords(to)}`;
  });
  return changes.length === 0 ? 'the same, started anew' : changes.join('; ');
}

function envInWords(after: StartedWith['env'], before: StartedWith['env']): string[] {
  const names = new Set([...Object.keys(after), ...Object.keys(before)]);
  return [...names].flatMap((name) => {
    if (after[name] === before[name]) return [];
    return after[name] === undefined ? `without ${name}` : `${name}=${valueInWords(after[name])}`;
  });
}

function valueInWords(value: StartedWith[keyof StartedWith]): string {
  if (value === undefined) return 'left out';
  const text = Array.isArray(value)
    ? value.map((one) => (typeof one === 'string' ? one : one.name)).join(', ') || 'none'
    : String(value);
  return text.length > MOST_CHARS ? `${text.slice(0, MOST_CHARS)}…` : text;
}
