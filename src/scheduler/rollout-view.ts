import type { PoolScaling } from '../protocol/index.ts';
import { isEnding, isFinal, type LaunchRecord } from './launch.ts';
import { isStarting } from './rule/capacity.ts';
import type { PoolDecided, WorkersFigures } from './rule-types.ts';
import { differenceInWords } from './version.ts';
import type { KeptVersion, PoolVersions } from './versions.ts';

/**
 * Returns the replacement of a pool's workers as everybody sees it, or null: all have the version that the file says,
 * and a change would be rolled out.
 */
export function rolloutOf(
  versions: PoolVersions | null,
  decided: PoolDecided | null,
): PoolScaling['rollout'] {
  if (!versions) return null;
  const { wanted, from, since, paused_since = null } = versions;
  const stopped = stoppedIn(versions);
  const { text = '', next = null, is_stuck = false } = decided?.rollout ?? {};
  if (stopped) {
    const why = `Version ${stopped.version} was stopped: ${stopped.stopped_because} The pool keeps ${wanted}.`;
    const more = text === '' && paused_since !== null ? HELD : text;
    return {
      state: 'stopped',
      from: wanted,
      to: stopped.version,
      since,
      text: more === '' ? why : `${why} ${more}`,
      next,
      is_stuck,
    };
  }
  if (paused_since !== null) {
    return {
      state: 'paused',
      from,
      to: wanted,
      since: paused_since,
      text: text === '' ? HELD : text,
      next,
      is_stuck,
    };
  }
  if (!decided?.rollout) return null;
  return { state: 'rolling', from, to: wanted, since, text, next, is_stuck };
}

const HELD = 'A change of the pool replaces no worker until an operator resumes its rollouts.';

/**
 * Returns the version that was given up and that somebody still has to see to: what the pool went back from, or what
 * the file says.
 */
function stoppedIn({ filed, wanted, from, kept }: PoolVersions): KeptVersion | null {
  const stopped = kept.filter((one) => one.version !== wanted && one.stopped_because !== null);
  return (
    stopped.find(({ version }) => version === from) ??
    stopped.find(({ version }) => version === filed) ??
    null
  );
}

/**
 * Returns the versions of a pool's workers, the newest first.
 * @param own the pool's launches
 * @param figures returns what some workers did together lately
 */
export function versionsOf(
  versions: PoolVersions | null,
  own: readonly LaunchRecord[],
  figures: (workerIds: readonly string[]) => WorkersFigures | null,
): PoolScaling['versions'] {
  if (!versions) return [];
  const alive = own.filter((launch) => !isFinal(launch));
  const known = new Set(versions.kept.map(({ version }) => version));
  const forgotten = new Set(
    alive.flatMap(({ version }) => (version !== null && !known.has(version) ? version : [])),
  );
  const done = new Map(
    [...known, ...forgotten].map((version) => {
      const names = own.flatMap((launch) => (launch.version === version ? launch.name : []));
      return [version, figures(names)] as const;
    }),
  );
  const all = [...done.values()].reduce((sum, one) => sum + (one?.requests ?? 0), 0);
  const row = (
    version: string,
    told: Pick<Row, 'state' | 'what' | 'since' | 'is_proved' | 'stopped_because'>,
  ) => {
    const mine = alive.filter((launch) => launch.version === version);
    const did = done.get(version) ?? null;
    return {
      version,
      ...told,
      ready: mine.filter(({ state }) => state === 'ready').length,
      starting: mine.filter(isStarting).length,
      draining: mine.filter(isEnding).length,
      requests: did?.requests ?? null,
      share: did && all > 0 ? did.requests / all : null,
      errors: did?.errors ?? null,
      first_token_p50_ms: did?.first_token_p50_ms ?? null,
      first_token_p95_ms: did?.first_token_p95_ms ?? null,
      tokens_per_second: did?.tokens_per_second ?? null,
    };
  };
  const kept = versions.kept.map((one, index) =>
    row(one.version, {
      state: stateOf(one, versions, alive),
      what: differenceInWords(one.started_with, versions.kept[index + 1]?.started_with ?? null),
      since: one.since,
      is_proved: one.proved_at !== null,
      stopped_because: one.stopped_because,
    }),
  );
  const others = [...forgotten].map((version) => {
    const first = alive.find((launch) => launch.version === version);
    const told = { state: 'old' as const, what: 'no longer kept', stopped_because: null };
    return row(version, { ...told, since: first?.intended_at ?? 0, is_proved: true });
  });
  return [...kept, ...others];
}

type Row = PoolScaling['versions'][number];

function stateOf(
  { version, stopped_because }: KeptVersion,
  { wanted }: PoolVersions,
  alive: readonly LaunchRecord[],
): Row['state'] {
  if (version === wanted) return 'wanted';
  if (stopped_because !== null) return 'stopped';
  return alive.some((launch) => launch.version === version) ? 'old' : 'kept';
}
