import type { LaunchRow, PoolScaling, PoolVersion, Rollout } from '../protocol/scaling.ts';
import { duration, percent, plural, tokenRate } from './format.ts';

/** The words for a rollout's state. */
export const ROLLOUT_WORDS: Record<Rollout['state'], string> = {
  rolling: 'Rolling out',
  paused: 'Rollouts paused',
  stopped: 'Rollout stopped',
};

/** Returns the versions of a pool that are shown: none if there is nothing to tell them apart from. */
export function shownVersions({ rollout, versions }: PoolScaling): readonly PoolVersion[] {
  return rollout !== null || versions.length > 1 ? versions : [];
}

/** Returns a version's state in words. */
export function versionState({ state, is_proved }: PoolVersion): string {
  switch (state) {
    case 'wanted':
      return is_proved ? 'wanted' : 'wanted, not proved yet';
    case 'old':
      return 'being replaced';
    case 'stopped':
      return 'stopped';
    case 'kept':
      return 'kept to go back to';
  }
}

/** Returns the workers of a version in words, a phrase for each state: `2 ready`, `1 starting`. */
export function versionWorkers({ ready, starting, draining }: PoolVersion): string[] {
  const parts = [
    ...(ready > 0 ? [`${ready} ready`] : []),
    ...(starting > 0 ? [`${starting} starting`] : []),
    ...(draining > 0 ? [`${draining} draining`] : []),
  ];
  return parts.length === 0 ? ['none'] : parts;
}

/** Returns the figures of a version's last ten minutes, a phrase each; empty: nothing is known. */
export function versionFigures(version: PoolVersion): string[] {
  const { requests, share, errors, first_token_p50_ms, first_token_p95_ms, tokens_per_second } = version;
  if (requests === null || requests === 0) return [];
  return [
    `${plural(requests, 'request')}${share === null ? '' : ` (${percent(share)})`}`,
    ...(errors === null ? [] : [`${percent(errors / requests)} errors`]),
    ...(first_token_p50_ms === null
      ? []
      : [`first token ${duration(first_token_p50_ms)}, p95 ${duration(first_token_p95_ms)}`]),
    ...(tokens_per_second === null ? [] : [tokenRate(tokens_per_second)]),
  ];
}

/** Returns whether the sentence about the rollout says already why this version was stopped. */
export function saysWhyStopped({ rollout }: PoolScaling, { version }: PoolVersion): boolean {
  return rollout?.state === 'stopped' && rollout.to === version;
}

/** The most lines that are shown of a worker's last words. */
const MOST_LINES = 8;

/** Returns the last lines of the newest worker of a stopped version that failed; empty: it left none. */
export function lastWords(
  { version, stopped_because }: PoolVersion,
  configId: string,
  launches: readonly LaunchRow[],
): string[] {
  if (stopped_because === null) return [];
  const failed = launches.filter(
    (launch) => launch.version === version && launch.config_id === configId && launch.cause !== null,
  );
  const newest = failed.reduce<LaunchRow | null>(
    (one, other) => (one === null || other.state_at > one.state_at ? other : one),
    null,
  );
  const lines = (newest?.detail ?? '').split('\n').filter((line) => line.trim() !== '');
  return lines.slice(-MOST_LINES).map((line) => line.trimEnd());
}
