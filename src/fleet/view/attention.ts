import {
  type Attention,
  type PoolRow,
  type PoolScaling,
  type WorkerRow,
  workerName,
} from '../../protocol/index.ts';
import type { Incidents } from '../incidents.ts';
import { isPutOff, missedIn, waitingIn, waitsLong } from './pool-row.ts';
import { heldBack, nearestLaunch } from './pool-start.ts';
import { type Finding, type Problem, type ScalingShown, scalingItems, withId } from './scaling-attention.ts';
import { backlogOf } from './why-waiting.ts';
import { firstLine, jobsWait, span } from './words.ts';
import { isReady, lastHeard, startTimes, withoutHeartbeats } from './worker-row.ts';

/** A start is slow when it takes this many times the usual duration, and at least SLOW_START_MS longer. */
const SLOW_START = 1.5;
const SLOW_START_MS = 60_000;
/** A start is slow after this many ms if no start of the pool has been seen yet. */
const SLOW_FIRST_START_MS = 20 * 60_000;
/** An event is shown for this long after it is over, ms. */
const TOLD_FOR_MS = 10 * 60_000;
const LOST_TOLD_FOR_MS = 60 * 60_000;

/** The states in which a worker reports an error. */
const TROUBLED: ReadonlySet<WorkerRow['state']> = new Set(['error', 'starting', 'loading']);

/** The facts from which the list's items are made. */
export interface Shown extends ScalingShown {
  workers: readonly WorkerRow[];
  incidents: Incidents;
}

/**
 * Lists the problems that need an operator, the worst first, those of one kind by name. The passing of time alone does
 * not change this order.
 */
export function attentionIn(shown: Shown, now: number): Problem[] {
  const items = [
    ...shown.pools.flatMap((pool) => [...waitItems(pool, shown, now), ...objectiveItems(pool, now)]),
    ...shown.workers.flatMap((worker) => workerItems(worker, now)),
    ...scalingItems(shown, isSlow, now),
    ...incidentItems(shown.incidents, now),
  ];
  return items
    .map(withId)
    .sort((a, b) => rankOf(a) - rankOf(b) || compare(nameOf(a), nameOf(b)) || compare(a.id, b.id));
}

function waitItems(pool: PoolRow, shown: Shown, now: number): Finding[] {
  const waiting = waitingIn(pool);
  if (waiting === 0) return [];
  const oldest = pool.oldest_wait_ms ?? 0;
  const about = { config_id: pool.config_id, worker_id: null, since: now - oldest };
  const text = `${pool.config_id}: ${jobsWait(waiting)}, the oldest for ${span(oldest)}: ${pool.why_waiting?.for}.`;
  if (isPutOff(pool)) {
    const advice = pool.why_waiting?.advice ?? '';
    return [{ code: 'jobs_wait', severity: 'info', ...about, text, advice }];
  }
  if (pool.ready_workers === 0) {
    return [
      {
        code: 'no_ready_worker',
        // Workers that are starting will be ready without an operator.
        severity: (pool.scaling?.starting ?? 0) > 0 ? 'warning' : 'error',
        ...about,
        text,
        advice: howToGetOne(pool, shown, now),
      },
    ];
  }
  if (!waitsLong(pool)) return [];
  return [{ code: 'jobs_wait', severity: 'warning', ...about, text, advice: howToServeMore(pool) }];
}

function howToGetOne(pool: PoolRow, shown: Shown, now: number): string {
  const workers = shown.workers.filter(({ config_id }) => config_id === pool.config_id);
  const lefts = workers
    .filter(({ state }) => state === 'starting' || state === 'loading')
    .map((worker) => startTimes(worker, now)?.left ?? null);
  const left = Math.min(...lefts.filter((ms) => ms !== null));
  if (left > 0 && left < Number.POSITIVE_INFINITY) return `Expected in about ${span(left + 30_000)}.`;
  const failed = workers.find(({ state, error }) => TROUBLED.has(state) && error?.advice);
  if (failed?.error?.advice) return failed.error.advice;
  if (lefts.length > 0) return 'Follow the log of the worker that loads.';
  if (pool.scaling) return howItIsStarted(pool, pool.scaling, shown, now);
  return `Start a worker with CASOLA_CONFIG_ID=${pool.config_id}.`;
}

function howItIsStarted(pool: PoolRow, scaling: PoolScaling, { launches }: Shown, now: number): string {
  const launch = nearestLaunch(launches.filter(({ config_id }) => config_id === pool.config_id));
  const left = launch?.ready_expected_at == null ? 0 : launch.ready_expected_at - now;
  if (left > 0) return `Expected in about ${span(left + 30_000)}.`;
  if (launch) return 'Follow its launch.';
  if (heldBack(scaling) !== null) return `Resume it: worker-vllm fleet resume ${pool.config_id}.`;
  return scaling.decision?.text ?? 'The scheduler has not decided yet.';
}

/** Says how many more workers would keep up, by what one worker finished lately. */
function howToServeMore({ now, ready_workers, config_id }: PoolRow): string {
  const ended = now.succeeded + now.failed + now.cancelled + now.expired;
  const more = ended === 0 ? 1 : Math.ceil((now.submitted * ready_workers) / ended) - ready_workers;
  if (more <= 0) return 'More end than come: the queue gets shorter by itself.';
  const verb = more === 1 ? 'more worker' : 'more workers';
  return `${more} ${verb} with CASOLA_CONFIG_ID=${config_id} would keep up.`;
}

function objectiveItems(pool: PoolRow, now: number): Finding[] {
  return missedIn(pool).map(({ name, isFast, text }) => ({
    code: 'objective_missed',
    severity: isFast ? 'error' : 'warning',
    config_id: pool.config_id,
    worker_id: null,
    about: `${pool.config_id}/${name}`,
    text: `${pool.config_id}: ${text}.`,
    advice:
      name === 'success'
        ? 'Look at the newest that failed: their errors say why.'
        : 'Look at its charts: what grew is the wait for a slot or the time in the engine.',
    // The time is rounded to a minute, so that the list stays the same while nothing but time changes.
    since: now - (now % 60_000) - 3_600_000,
  }));
}

function workerItems(worker: WorkerRow, now: number): Finding[] {
  const item = itemOf(worker, now);
  if (!item) return [];
  const since = worker.state_since ?? worker.heartbeat_at ?? now;
  return [{ config_id: worker.config_id, worker_id: worker.worker_id, since, ...item }];
}

type Item = Pick<Attention, 'code' | 'severity' | 'text' | 'advice'> & { since?: number };

function itemOf(worker: WorkerRow, now: number): Item | null {
  const { state, error } = worker;
  const id = workerName(worker.worker_id);
  if (state === 'error') {
    return {
      code: 'worker_error',
      severity: 'error',
      text: `${id} failed: ${firstLine(error?.message ?? 'it does not say why')}.`,
      advice: error?.advice ?? 'Read the last lines of its log.',
    };
  }
  if (state === 'lost' || state === 'late') return missing(worker, now);
  if (state === 'starting' || state === 'loading') return slowStart(worker, now);
  if (isReady(state)) return unheard(worker, now);
  if (state !== 'paused') return null;
  return {
    code: 'engine_backlog',
    severity: 'warning',
    text: `${id} takes no jobs for now: ${backlogOf(worker)}.`,
    advice: 'It goes on by itself. If it does so often, give it fewer slots or add a worker.',
  };
}

/** Reports a worker that is lost, unless its machine was taken away: then nobody need look for it. */
function missing(worker: WorkerRow, now: number): Item | null {
  const { state, disconnected, preempted } = worker;
  const id = workerName(worker.worker_id);
  if (preempted || state === 'late' || now - (worker.state_since ?? now) > LOST_TOLD_FOR_MS) return null;
  const how = disconnected ? `; its connection ended: ${firstLine(disconnected.reason, 100)}` : '';
  return {
    code: 'worker_lost',
    severity: 'warning',
    text: `${id} has not been heard of for ${span(now - lastHeard(worker, now))}; it ${worker.was_doing}${how}.`,
    advice: 'Look at its machine. Jobs that it ran were given to others.',
  };
}

/** Reports a worker that answers on its connection while its heartbeats do not come. */
function unheard(worker: WorkerRow, now: number): Item | null {
  const silentMs = withoutHeartbeats(worker, now);
  if (silentMs === null) return null;
  return {
    code: 'heartbeats_missing',
    severity: 'warning',
    text: `${workerName(worker.worker_id)} takes jobs, but has sent no heartbeat for ${span(silentMs)}.`,
    advice: 'Its log says why they do not arrive. Until they do, what is shown of its engine is old.',
    since: now - silentMs,
  };
}

function slowStart(worker: WorkerRow, now: number): Item | null {
  if (worker.error) {
    const text = `${workerName(worker.worker_id)} is not up: ${firstLine(worker.error.message)}.`;
    const advice = worker.error.advice ?? 'Read the last lines of its log.';
    return { code: 'worker_error', severity: 'warning', text, advice };
  }
  const times = startTimes(worker, now);
  if (!times) return null;
  const usual = worker.expected_start_ms;
  if (!isSlow(times.taken, usual)) return null;
  const than = usual === null ? '' : `, usually ${span(usual)}`;
  const phase = worker.phase === null ? '' : ` It is in the phase "${worker.phase}".`;
  return {
    code: 'start_slow',
    severity: 'warning',
    text: `${workerName(worker.worker_id)} has been starting for ${span(times.taken)}${than}.${phase}`,
    advice: 'Read the last lines of its log.',
    since: now - times.taken,
  };
}

function isSlow(takenMs: number, usualMs: number | null): boolean {
  if (usualMs === null) return takenMs > SLOW_FIRST_START_MS;
  return takenMs > Math.max(usualMs * SLOW_START, usualMs + SLOW_START_MS);
}

function incidentItems({ refusal, unknown_models }: Incidents, now: number): Finding[] {
  const nobody = { config_id: null, worker_id: null };
  const items: Finding[] = [];
  if (refusal && now - refusal.at <= TOLD_FOR_MS) {
    const text = `A worker was refused: ${refusal.why}.`;
    const { advice, at: since } = refusal;
    items.push({ code: 'token_refused', severity: 'warning', ...nobody, text, advice, since });
  }
  for (const { at, model, models } of unknown_models) {
    if (now - at > TOLD_FOR_MS) continue;
    const known = models === '' ? 'no model is known yet' : `models there are: ${models}`;
    items.push({
      code: 'unknown_model',
      // One caller made a mistake, which needs no operator.
      severity: 'info',
      ...nobody,
      about: model,
      text: `A caller asked for the model "${model}", which no worker serves; ${known}.`,
      advice: 'Mend the name, give it as an alias in QUEUE_MODEL_ALIASES, or start a worker for it.',
      since: at,
    });
  }
  return items;
}

const WORST_FIRST: Attention['code'][] = [
  'no_ready_worker',
  'starts_fail',
  'launcher_silent',
  'budget_reached',
  'worker_error',
  'jobs_wait',
  'worker_lost',
  'objective_missed',
  'provider_silent',
  'rollout_stopped',
  'rollout_stuck',
  'heartbeats_missing',
  'start_slow',
  'engine_backlog',
  'token_refused',
  'unknown_model',
];

function nameOf({ config_id, worker_id }: Problem): string {
  return `${worker_id ?? ''} ${config_id ?? ''}`;
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

function rankOf({ code, severity }: Problem): number {
  return WORST_FIRST.indexOf(code) + (severity === 'error' ? 0 : WORST_FIRST.length);
}
