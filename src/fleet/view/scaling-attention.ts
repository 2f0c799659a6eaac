import {
  type Attention,
  type LaunchRow,
  type PoolRow,
  type ScalingSummary,
  withFullStop,
} from '../../protocol/index.ts';
import { waitingIn } from './pool-row.ts';
import { startOf } from './pool-start.ts';
import { stuckAdvice } from './why-waiting.ts';
import { span } from './words.ts';

/** A problem that needs attention, without what people did about it. */
export type Problem = Omit<Attention, 'acknowledged' | 'muted_until'>;

/** A problem without its id. `about`: its subject, if that is neither its worker nor its pool. */
export type Finding = Omit<Problem, 'id'> & { about?: string };

/** Gives a problem its id, which stays the same however long the problem lasts. */
export function withId({ about, ...finding }: Finding): Problem {
  const { code, worker_id, config_id } = finding;
  // Text and advice may quote errors and reasons that end with a full stop.
  const [text, advice] = [withFullStop(finding.text), withFullStop(finding.advice)];
  return { id: `${code}/${about ?? worker_id ?? config_id ?? ''}`, ...finding, text, advice };
}

/** A launcher reports every few seconds; one that has not reported for this long, ms, is silent. */
const LAUNCHER_SILENT_MS = 60_000;
/**
 * A provider is listed a few times a minute; one without a list for this long, ms, is silent: one failed list is no
 * problem yet.
 */
const PROVIDER_SILENT_MS = 60_000;

export interface ScalingShown {
  pools: readonly PoolRow[];
  launches: readonly LaunchRow[];
  scaling: ScalingSummary | null;
}

/**
 * Finds problems of the scheduler that need an operator. @param isSlow returns whether a start that takes so long, ms,
 * is slow where the usual duration is so long, ms
 */
export function scalingItems(
  { pools, launches, scaling }: ScalingShown,
  isSlow: (takenMs: number, usualMs: number | null) => boolean,
  now: number,
): Finding[] {
  if (!scaling) return [];
  return [
    ...budgetItems(scaling, pools),
    ...pools.flatMap((pool) => [...breakerItems(pool, now), ...stoppedItems(pool), ...stuckItems(pool, now)]),
    ...launcherItems(scaling, now),
    ...providerItems(scaling, now),
    ...launches.flatMap((launch) => slowItems(launch, isSlow, now)),
  ];
}

const NOBODY = { config_id: null, worker_id: null };

function budgetItems({ budget_reached, applied_at }: ScalingSummary, pools: readonly PoolRow[]): Finding[] {
  if (budget_reached === null) return [];
  const leavesOut = pools.some((pool) => pool.scaling && pool.ready_workers === 0 && waitingIn(pool) > 0);
  return [
    {
      code: 'budget_reached',
      severity: leavesOut ? 'error' : 'warning',
      ...NOBODY,
      text: `${capital(budget_reached)}.`,
      advice: "Raise the budget in the fleet's file, or drain what costs most.",
      since: Math.max(applied_at, ...pools.flatMap(({ scaling }) => scaling?.decision?.at ?? [])),
    },
  ];
}

function breakerItems({ config_id, scaling }: PoolRow, now: number): Finding[] {
  if (!scaling?.breaker) return [];
  const { text, until } = scaling.breaker;
  const resume = `worker-vllm fleet resume ${config_id}`;
  const advice =
    until === null
      ? `Mend the cause, then resume it: ${resume}.`
      : `The next start is tried in ${span(until - now)}; once the cause is mended, at once: ${resume}.`;
  const since = scaling.decision?.at ?? now;
  return [
    {
      code: 'starts_fail',
      severity: 'error',
      config_id,
      worker_id: null,
      text: `${config_id}: ${text}.`,
      advice,
      since,
    },
  ];
}

/** Finds pools of which a version was given up that the file or an operator asked for. */
function stoppedItems({ config_id, scaling }: PoolRow): Finding[] {
  if (scaling?.rollout?.state !== 'stopped') return [];
  const { to, from, since, text } = scaling.rollout;
  const [cause] = text.split('\n');
  return [
    {
      code: 'rollout_stopped',
      severity: 'error',
      config_id,
      worker_id: null,
      about: `${config_id}/${to}`,
      text: `${config_id}: ${cause}`,
      advice: `Mend the pool's part of the fleet's file; if the cause lay elsewhere, try the same once more: worker-vllm fleet roll ${config_id} --to ${to}. If an operator asked for it, and ${from} is to stay: worker-vllm fleet roll ${config_id} --to ${from}.`,
      since,
    },
  ];
}

/** Finds pools whose only worker keeps its version since there is no room for another. */
function stuckItems({ config_id, scaling }: PoolRow, now: number): Finding[] {
  if (!scaling?.rollout?.is_stuck) return [];
  const advice = stuckAdvice(config_id);
  const about = { config_id, worker_id: null, since: scaling.decision?.at ?? now };
  const text = `${config_id}: ${scaling.rollout.text}`;
  return [{ code: 'rollout_stuck', severity: 'warning', ...about, text, advice }];
}

/** Finds providers whose orders no launcher carries out. */
function launcherItems({ providers, launchers, applied_at }: ScalingSummary, now: number): Finding[] {
  const heard = launchers.filter(({ seen_at }) => now - seen_at <= LAUNCHER_SILENT_MS);
  const left = providers.filter(({ driver }) => !heard.some(({ drivers }) => drivers.includes(driver)));
  const since = Math.max(applied_at, ...launchers.map(({ seen_at }) => seen_at));
  if (left.length === 0 || now - since <= LAUNCHER_SILENT_MS) return [];
  const names = left.map(({ name }) => name).join(', ');
  const text =
    heard.length > 0
      ? `No launcher that is heard of has the driver for ${names}: nothing is launched or ended there.`
      : `No launcher has been heard of for ${span(now - since)}: nothing is launched or ended.`;
  const advice = 'Start one where the machines, or the keys of the provider, are: worker-vllm launcher.';
  return [{ code: 'launcher_silent', severity: 'error', ...NOBODY, text, advice, since }];
}

function providerItems({ providers, applied_at }: ScalingSummary, now: number): Finding[] {
  return providers.flatMap(({ name, listed_at, error }) => {
    const since = listed_at ?? applied_at;
    if (error === null || now - since <= PROVIDER_SILENT_MS) return [];
    const text = `The provider ${name} has not told its machines for ${span(now - since)}: ${error}.`;
    const advice =
      'Until it does, nothing is launched or ended there. Check its key, its balance and its status page.';
    return [
      {
        code: 'provider_silent',
        severity: 'warning',
        ...NOBODY,
        about: name,
        text,
        advice,
        since,
      },
    ];
  });
}

/**
 * Finds slow starts of machines whose workers send no heartbeats; other workers report their slow starts themselves.
 */
function slowItems(
  launch: LaunchRow,
  isSlow: (takenMs: number, usualMs: number | null) => boolean,
  now: number,
): Finding[] {
  const { state, loading, intended_at, ready_expected_at, config_id, name, provider, detail } = launch;
  const isStarting = state === 'requested' || state === 'accepted' || state === 'intended';
  if (!isStarting || loading) return [];
  const taken = now - intended_at;
  if (!isSlow(taken, ready_expected_at === null ? null : ready_expected_at - intended_at)) return [];
  return [
    {
      code: 'start_slow',
      severity: 'warning',
      config_id,
      worker_id: null,
      about: name,
      text: `${name} has been starting on ${provider} for ${span(taken)}: ${startOf(launch)}.`,
      advice: detail ?? 'Look at the machine with its provider.',
      since: intended_at,
    },
  ];
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
