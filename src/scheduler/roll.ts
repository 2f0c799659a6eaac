import { workerName } from '../protocol/index.ts';
import type { Core } from './core.ts';
import { unknownPool } from './operate.ts';
import type { AppliedSpec, RollAnswer, RollRequest } from './rpc.ts';
import { isStarting, startSeconds } from './rule/capacity.ts';
import { PROOF_MS } from './rule/judge.ts';
import { type PoolSpec, USUAL_UPDATE } from './spec.ts';
import type { Controls } from './state.ts';
import { differenceInWords } from './version.ts';
import { lastProved, type PoolVersions, startedAnew, type Versions, wantedNow } from './versions.ts';

interface Subject {
  core: Core;
  versions: Versions;
  controls: Controls;
  applied: AppliedSpec | null;
}

/** Carries out what an operator says about the versions of a pool's workers. @param dryRun only says what it would do */
export function roll(subject: Subject, configId: string, request: RollRequest, dryRun: boolean): RollAnswer {
  const { core, versions, controls, applied } = subject;
  const pool = applied?.spec.pools[configId];
  const before = versions.of(configId);
  if (!pool || !before) return unknownPool(applied, configId);
  const next = after(before, pool, request, core.now());
  if ('refused' in next) return { ok: false, reason: next.reason, message: `${configId}: ${next.refused}` };
  if (!dryRun) {
    versions.save(configId, next);
    // Its failures of before are no reason not to try it once more.
    if (next.wanted !== before.wanted) controls.change(configId, { forgiven_at: core.now() });
  }
  return { ok: true, text: inWords(subject, configId, { before, next, pool, dryRun }), wanted: next.wanted };
}

type Refused = { refused: string; reason: 'unknown_version' };

function after(
  before: PoolVersions,
  pool: PoolSpec,
  request: RollRequest,
  now: number,
): PoolVersions | Refused {
  switch (request.action) {
    case 'pause':
      return { ...before, paused_since: before.paused_since ?? now };
    case 'resume':
      return { ...before, paused_since: null, since: before.paused_since == null ? before.since : now };
    case 'anew':
      return { ...startedAnew(before, pool, now), paused_since: null };
    case 'back': {
      const back = lastProved(before, before.wanted);
      if (back) return { ...wantedNow(before, back.version, back.started_with, now), paused_since: null };
      return {
        reason: 'unknown_version',
        refused: `there is no version to go back to: none but ${before.wanted} has served well and is kept.`,
      };
    }
    case 'to': {
      const { version } = request;
      const known = before.kept.find((one) => one.version === version);
      if (known) {
        const isSame = version === before.wanted && known.stopped_because === null;
        return isSame
          ? { ...before, from: isStopped(before, before.from) ? null : before.from, paused_since: null }
          : { ...wantedNow(before, version, known.started_with, now), paused_since: null };
      }
      const kept = before.kept.map((one) => one.version).join(', ');
      return { reason: 'unknown_version', refused: `version ${version} is not kept, only ${kept}.` };
    }
  }
}

function isStopped({ kept }: PoolVersions, version: string | null): boolean {
  return kept.some((one) => one.version === version && one.stopped_because !== null);
}

interface Change {
  before: PoolVersions;
  next: PoolVersions;
  pool: PoolSpec;
  dryRun: boolean;
}

function inWords(
  { core, controls }: Subject,
  configId: string,
  { before, next, pool, dryRun }: Change,
): string {
  const own = core.launches.alive().filter(({ config_id }) => config_id === configId);
  const others = own.filter(({ version }) => version !== next.wanted);
  const would = dryRun ? 'would be' : 'is';
  if (next.paused_since !== null) {
    const left =
      others.length === 0
        ? 'Every worker has its version already; a change of the file replaces none until it is resumed'
        : `${plural(others.length)} left to replace`;
    return `The rollout of ${configId} ${would} held: no more workers are replaced. ${left}.`;
  }
  const sentences: string[] = [];
  if (next.wanted === before.wanted) {
    sentences.push(
      others.length === 0
        ? `Every worker of ${configId} has version ${next.wanted} already: there is nothing to replace.`
        : `The rollout of ${configId} to ${next.wanted} goes on.`,
    );
  } else {
    const [to, from] = [next, before].map(({ kept, wanted }) => kept.find((one) => one.version === wanted)!);
    const what = differenceInWords(to!.started_with, from?.started_with ?? null);
    sentences.push(`${configId} ${would} rolled from ${before.wanted} to ${next.wanted}: ${what}.`);
    const isUnderWay = own.some(({ version }) => version !== before.wanted);
    if (isUnderWay) sentences.push(`The rollout to ${before.wanted}, which was under way, ends with that.`);
  }
  const { control } = controls.of(configId);
  if (control !== 'automatic')
    sentences.push(
      `The pool is ${control}: nothing is launched until it is resumed (worker-vllm fleet resume ${configId}).`,
    );
  else if (others.length > 0) sentences.push(planInWords(core, configId, others, pool));
  return sentences.join(' ');
}

/** Says what is replaced in which order, how long that takes and what it costs meanwhile. */
function planInWords(
  core: Core,
  configId: string,
  others: ReturnType<Core['launches']['alive']>,
  { update = USUAL_UPDATE, max }: PoolSpec,
): string {
  const running = (name: string) => core.machines.byName.get(name)?.session?.running ?? 0;
  const inOrder = [...others]
    .filter((launch) => launch.state === 'ready' || isStarting(launch))
    .sort((one, other) => running(one.name) - running(other.name));
  if (inOrder.length === 0) return 'Nothing that serves has to be replaced.';
  const start = startSeconds(core.launches.launched().filter(({ config_id }) => config_id === configId));
  const atOnce = Math.max(1, Math.min(update.surge + update.unavailable, inOrder.length));
  const alive = core.launches.alive().filter(({ config_id }) => config_id === configId).length;
  const beside = Math.max(0, Math.min(update.surge, max - alive));
  const hasToWait = beside === 0 && update.unavailable === 0;
  const proofSeconds = Math.max(PROOF_MS / 1000, update.canary?.for ?? 0);
  const waitSeconds = hasToWait ? update.patience : 0;
  const minutes = Math.ceil(((inOrder.length / atOnce) * start.p80 + proofSeconds + waitSeconds) / 60);
  const price = Math.max(0, ...inOrder.map(({ price_per_hour }) => price_per_hour)) * beside;
  const cost = price > 0 ? `, for $${price.toFixed(2)} an hour more meanwhile` : '';
  const first =
    beside > 0
      ? `${beside} new beside the old ones first`
      : `no room beside the old ones, so one of them first${hasToWait ? `, once there was none for ${Math.ceil(update.patience / 60)} min` : ''}`;
  return `In this order: ${inOrder.map(({ name }) => workerName(name)).join(', ')}; ${first}; about ${minutes} min${cost}.`;
}

function plural(count: number): string {
  return count === 1 ? '1 worker is' : `${count} workers are`;
}
