import { isFinal, type Launch } from '../launch.ts';
import type { ObservedPool, ObservedVersions } from '../rule-types.ts';
import { type Breaker, poolBreaker } from './breaker.ts';
import { type Capacity, isStarting } from './capacity.ts';

/**
 * The workers of a pool by version while some have another one than they are to have. There are no phases: each
 * decision looks at these sets alone, so the wanted version may change, and change back, at any time.
 */
export interface Rollout {
  /** Null: the pool is no longer in the spec. */
  versions: ObservedVersions | null;
  /** The workers of other versions that serve until they are replaced. */
  old: Launch[];
  /** The workers of other versions whose replacements serve: they are drained at once. */
  replaced: Launch[];
  /** The launches of other versions that nobody needs, since the one that they replace serves, or they only start. */
  needless: Launch[];
  /** The new launches that add nothing yet, since they start or are not proved, and as many old ones serve. */
  beside: Launch[];
  /** The workers that were drained before their replacements were launched, and have none yet. */
  owed: Launch[];
  /** The workers of the wanted version that serve or start, while it is not proved. */
  unproved: Launch[];
  /**
   * The breakers that failed starts have set for the wanted version, and for the one that is launched while it is not
   * proved.
   */
  breakers: { wanted: Breaker; fallback: Breaker };
}

interface OfPool {
  pool: ObservedPool;
  /** The pool's launches. */
  mine: Launch[];
  capacity: Capacity;
  /** Returns whether a ready worker is connected and has slots. */
  takesJobs(launch: Launch): boolean;
  /** Returns whether the launch's provider has a fresh list. */
  isHeard(launch: Launch): boolean;
  now: number;
}

/** Returns whether the wanted version is not proved, and there is another one to go back to. */
function isOnTrial(versions: ObservedVersions | null): boolean {
  return versions !== null && !versions.is_proved && versions.fallback !== null;
}

/** Returns the breakers alone, for a pool that ends or that stays as it is: none of its workers is replaced. */
export function noRollout({ pool, mine, now }: OfPool): Rollout {
  const { versions, forgiven_at } = pool;
  const breakerOf = (version: string | null, areRefusalsFaults = false) => {
    const own = versions ? mine.filter((launch) => launch.version === version) : mine;
    return poolBreaker(own, forgiven_at, now, areRefusalsFaults);
  };
  const isUnderWay = mine.some((launch) => !isFinal(launch) && launch.version !== versions?.wanted);
  const canGoBack = versions?.fallback != null && (isUnderWay || !versions.is_proved);
  return {
    versions,
    old: [],
    replaced: [],
    needless: [],
    beside: [],
    owed: [],
    unproved: [],
    breakers: {
      wanted: breakerOf(versions?.wanted ?? null, canGoBack),
      fallback: breakerOf(versions?.fallback ?? null),
    },
  };
}

/** Sorts the workers of a pool by their versions. */
export function rolloutOf(of: OfPool): Rollout {
  const none = noRollout(of);
  const { versions, breakers } = none;
  if (!versions) return none;
  const { pool, mine, capacity, takesJobs, isHeard } = of;
  const { wanted, fallback, is_proved, is_paused, since } = versions;
  const coming = [...capacity.starting, ...capacity.late];
  const isNew = ({ version }: Launch) => version === wanted;
  const isOld = ({ version }: Launch) => version !== wanted;
  const newReady = new Set(capacity.ready.filter(isNew));
  const serves = (id: string | null) => capacity.ready.some((launch) => launch.id === id);
  /** A start from before the change is of no use where nobody serves: the new version is tried at once. */
  const isTooLate = ({ intended_at }: Launch) =>
    capacity.ready.length === 0 && intended_at < since && !is_paused && breakers.wanted.failures === 0;
  /** A launch from before there were versions is ordered no more. */
  const mayStart = ({ version }: Launch) => version !== null && version === fallback;
  const needless = [...capacity.ready, ...coming].filter(
    (launch) =>
      isOld(launch) &&
      (serves(launch.replaces) || (isStarting(launch) && (!mayStart(launch) || isTooLate(launch)))),
  );
  const standing = capacity.ready.filter((launch) => isOld(launch) && !needless.includes(launch));
  const hasTakenOver = (launch: Launch) => is_proved && newReady.has(launch) && takesJobs(launch);
  const isReplaced = ({ id }: Launch) =>
    [...newReady].some((launch) => launch.replaces === id && hasTakenOver(launch));
  const replaced = standing.filter((launch) => !is_paused && isHeard(launch) && isReplaced(launch));
  const old = standing.filter((launch) => !replaced.includes(launch));
  const isPaired = ({ replaces }: Launch) => old.some(({ id }) => id === replaces);
  const wasFirst = new Set(pool.replaced_first);
  const news = [...newReady, ...coming.filter(isNew)];
  const beside = news.filter(
    (launch) =>
      launch.replaces !== null &&
      !wasFirst.has(launch.replaces) &&
      (!hasTakenOver(launch) || isPaired(launch)),
  );
  const hasSuccessor = (id: string) =>
    mine.some((one) => one.replaces === id && (isStarting(one) || one.ready_at !== null));
  return {
    versions,
    old,
    replaced,
    needless,
    // A start beside a worker that serves comes first: one whose old worker is gone would take its place.
    beside: beside
      .toSorted((one, other) => Number(isPaired(other)) - Number(isPaired(one)))
      .slice(0, old.length),
    owed: mine.filter(({ id }) => wasFirst.has(id) && !hasSuccessor(id)),
    unproved: is_proved ? [] : news,
    breakers,
  };
}

/** Returns the capacity without workers that go now, and without those that add nothing yet. */
export function capacityBeside({ replaced, beside, needless }: Rollout, capacity: Capacity): Capacity {
  const left = new Set([...replaced, ...beside, ...needless]);
  const isOther = (launch: Launch) => !left.has(launch);
  return {
    ...capacity,
    ready: capacity.ready.filter(isOther),
    starting: capacity.starting.filter(isOther),
    late: capacity.late.filter(isOther),
  };
}

/** A version that missing workers are launched with, and how many of them at most. */
export interface Launchable {
  version: string | null;
  most: number;
  breaker: Breaker;
}

/**
 * Returns the versions that missing workers are launched with, in order: the wanted one if it is proved. One that is
 * not is tried only where nobody serves, and in the places that were made for it.
 * @param have the number of workers that serve or start
 */
export function launchable({ versions, unproved, owed, breakers }: Rollout, have: number): Launchable[] {
  const all = Number.POSITIVE_INFINITY;
  const wanted = { version: versions?.wanted ?? null, most: all, breaker: breakers.wanted };
  if (!versions || versions.is_proved || versions.fallback === null) return [wanted];
  const fallback = { version: versions.fallback, most: all, breaker: breakers.fallback };
  const { surge, unavailable } = versions.update;
  const places = have === 0 ? 1 : owed.length;
  const most = Math.min(places, surge + unavailable - unproved.length);
  const isTried = !versions.is_paused && breakers.wanted.kind === 'closed' && most > 0;
  return isTried ? [{ ...wanted, most }, fallback] : [fallback];
}

/** Returns the version that workers are launched with as long as nothing else is tried. */
export function mainVersion({ versions }: Rollout): string | null {
  return (isOnTrial(versions) ? versions?.fallback : versions?.wanted) ?? null;
}

/** Returns what failed starts say of that version. */
export function mainBreaker({ versions, breakers }: Rollout): Breaker {
  return isOnTrial(versions) ? breakers.fallback : breakers.wanted;
}

/** Returns the most workers of the wanted version while it is tried on a part of the requests. */
export function canaryPlaces({ versions }: Rollout, workers: number): number {
  const canary = versions?.update.canary;
  if (!canary || versions?.is_proved) return Number.POSITIVE_INFINITY;
  return Math.max(1, Math.floor(canary.share * workers));
}
