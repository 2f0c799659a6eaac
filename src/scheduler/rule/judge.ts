import { failureAndCause } from '../../protocol/scaling.ts';
import { isFinal, type Launch } from '../launch.ts';
import type { Judgement, ObservedVersions } from '../rule-types.ts';
import type { Breaker } from './breaker.ts';
import type { Rollout } from './rollout.ts';
import { plural } from './round.ts';

/** A version is proved once its workers have answered so many requests, or one has served for so long, ms. */
const PROOF_REQUESTS = 20;
export const PROOF_MS = 2 * 60_000;
/** Where too few requests came to tell a fault from chance, a version is proved after this time, ms. */
const LONG_PROOF_MS = 10 * 60_000;
/** The share of failed requests that a version may have beyond the one before. */
const MORE_ERRORS = 0.02;
/** Fewer failed requests than this are chance. */
const LEAST_ERRORS = 3;
/** A version is stopped when this share of its workers, and at least so many, ended by themselves after they were ready. */
const DEATHS = { share: 0.1, least: 2 };

/**
 * Judges the wanted version by its workers; null: there is nothing to say, or not yet. It is stopped only where there
 * is another version to go back to, and only until it has replaced that one.
 * @param mine the pool's launches
 * @param takesJobs returns whether a ready worker is connected and has slots
 */
export function judge(
  mine: Launch[],
  { versions, old, breakers }: Rollout,
  takesJobs: (launch: Launch) => boolean,
  now: number,
): Judgement | null {
  if (!versions) return null;
  const { wanted, fallback, is_proved } = versions;
  if (is_proved && old.length === 0) return null;
  const own = mine.filter(({ version }) => version === wanted);
  const why = whyStopped(own, breakers.wanted, versions);
  if (fallback !== null && why !== null)
    return { kind: 'stop', version: wanted, back_to: fallback, reason: why };
  const isProof = !is_proved && isProved(own.filter(takesJobs), versions, now);
  return isProof ? { kind: 'prove', version: wanted, reason: `Version ${wanted} has served well.` } : null;
}

/** Says how far the proof of a version is, a sentence; empty: none of its workers serves. */
export function proofInWords(serving: Launch[], versions: ObservedVersions, now: number): string {
  if (serving.length === 0) return '';
  const { requests, errors } = errorsOf(versions);
  const seconds = Math.round(lastedMs(serving, now) / 1000);
  const canary = versions.update.canary;
  const until = canary
    ? `takes ${percent(canary.share)} of the requests for ${Math.round(canary.for / 60)} min`
    : `is watched for ${PROOF_REQUESTS} requests or ${PROOF_MS / 1000} s`;
  return `The new one ${until}: ${plural(requests, 'request')} in ${seconds} s, ${errors} failed.`;
}

function isProved(serving: Launch[], versions: ObservedVersions, now: number): boolean {
  if (serving.length === 0) return false;
  const lasted = lastedMs(serving, now);
  if (lasted < (versions.update.canary?.for ?? 0) * 1000) return false;
  const { requests, isWorse } = errorsOf(versions);
  if (lasted >= LONG_PROOF_MS) return true;
  return !isWorse && (requests >= PROOF_REQUESTS || lasted >= PROOF_MS);
}

/** Returns for how long the first of these workers has served, ms. */
function lastedMs(serving: Launch[], now: number): number {
  return now - Math.min(...serving.map(({ ready_at }) => ready_at ?? now));
}

function whyStopped(own: Launch[], breaker: Breaker, versions: ObservedVersions): string | null {
  if (breaker.kind === 'open') return `${breaker.why}.`;
  const wereReady = own.filter(
    (launch) => launch.ready_at !== null && (!isFinal(launch) || launch.state_at >= versions.since),
  );
  const died = wereReady
    .filter((launch) => hasDied(launch) && launch.state_at >= versions.since)
    .sort((one, other) => one.state_at - other.state_at);
  const last = died.at(-1);
  if (last && died.length >= Math.max(DEATHS.least, DEATHS.share * wereReady.length))
    return `${died.length} of its ${wereReady.length} workers that were ready ended by themselves; the last: ${failureAndCause(last)}.`;
  const { requests, errors, isBad, before } = errorsOf(versions);
  if (!isBad) return null;
  return `${errors} of ${requests} requests at its workers failed, and ${percent(before)} at those of the version before.`;
}

function hasDied({ cause, exit_code }: Launch): boolean {
  return cause === 'exited' || (cause === 'lost' && exit_code !== null);
}

/** Compares the errors of the wanted version's workers with those of the others. */
function errorsOf({ figures, others }: ObservedVersions) {
  const { requests = 0, errors = 0 } = figures ?? {};
  const before = others && others.requests > 0 ? others.errors / others.requests : 0;
  const allowed = before + MORE_ERRORS;
  return {
    requests,
    errors,
    before,
    isWorse: requests > 0 && errors / requests > allowed,
    /** Whether it is worse, and that is no chance. */
    isBad: errors >= LEAST_ERRORS && leastShare(errors, requests) > allowed,
  };
}

/** Returns the least share of failures that these numbers speak for: Wilson's lower bound at three sigma. */
function leastShare(errors: number, requests: number): number {
  const share = errors / requests;
  const middle = share + 9 / (2 * requests);
  const margin = 3 * Math.sqrt((share * (1 - share)) / requests + 9 / (4 * requests * requests));
  return (middle - margin) / (1 + 9 / requests);
}

function percent(share: number): string {
  return `${Math.round(share * 1000) / 10} %`;
}
