import type { ConfigRow, FleetSummary, LaunchRow, Verdict, WorkerRow } from '../../protocol/index.ts';
import { LONG_WAIT_MS, waitingIn, whyNoneReady } from './config-row.ts';
import { heldBack } from './config-start.ts';
import { counted, jobsWait, span } from './words.ts';
import { atWork, isReady } from './worker-words.ts';

/** The whole fleet in one line. */
export function summaryOf(
  configs: readonly ConfigRow[],
  workers: readonly WorkerRow[],
  launches: readonly LaunchRow[],
  now: number,
): FleetSummary {
  const { verdict, text } = verdictOf({ configs, workers, launches }, now);
  const there = workers.filter(({ state }) => atWork(state));
  const speeds = there.flatMap(({ tokens_per_second }) => tokens_per_second ?? []);
  const waits = configs.flatMap(({ oldest_wait_ms }) => oldest_wait_ms ?? []);
  return {
    verdict,
    text,
    workers: there.length,
    ready_workers: there.filter(({ state }) => isReady(state)).length,
    slots: sum(configs, ({ slots }) => slots),
    busy_slots: sum(configs, ({ busy_slots }) => busy_slots),
    waiting: sum(configs, waitingIn),
    oldest_wait_ms: waits.length > 0 ? Math.max(...waits) : null,
    tokens_per_second: speeds.length > 0 ? sum(speeds, (speed) => speed) : null,
  };
}

interface Rows {
  configs: readonly ConfigRow[];
  workers: readonly WorkerRow[];
  launches: readonly LaunchRow[];
}

function verdictOf(rows: Rows, now: number): { verdict: Verdict; text: string } {
  const { configs, workers } = rows;
  const problems = configs
    .flatMap((config) => {
      const problem = problemOf(config, rows, now);
      return problem === null ? [] : [{ config, problem }];
    })
    .sort((a, b) => (b.config.oldest_wait_ms ?? -1) - (a.config.oldest_wait_ms ?? -1));
  const [worst] = problems;
  const because = worst ? `${worst.config.config_id}: ${worst.problem}` : '';
  const scaled = configs.filter(({ scaling }) => scaling);
  if (workers.length === 0 && !worst && scaled.length === 0) {
    return { verdict: 'empty', text: 'No worker has connected yet.' };
  }
  if (!workers.some(({ state }) => isReady(state))) {
    if (!worst) return scaledToZero(scaled);
    // What waits for a start that is under way is served, only later.
    const isStarting = problems.every(({ config }) => (config.scaling?.starting ?? 0) > 0);
    return { verdict: isStarting ? 'degraded' : 'not_serving', text: `${because}.` };
  }
  // One that has neither workers nor jobs is not in use.
  const inUse = configs.filter((config) => config.workers > 0 || waitingIn(config) > 0);
  if (!worst) return { verdict: 'serving', text: served(inUse, workers) };
  const count = `${inUse.length - problems.length} of ${counted(inUse.length, 'config')} fine`;
  return { verdict: 'degraded', text: inUse.length === 1 ? `${because}.` : `${count}; ${because}.` };
}

/** What is wrong with a config, after its name; null: it is fine. */
function problemOf(config: ConfigRow, { workers, launches }: Rows, now: number): string | null {
  const waiting = waitingIn(config);
  const oldest = config.oldest_wait_ms ?? 0;
  const isOwn = ({ config_id }: { config_id: string | null }) => config_id === config.config_id;
  const own = {
    workers: workers.filter(isOwn),
    launches: launches.filter(isOwn),
    scaling: config.scaling,
  };
  const isNoneReady = config.ready_workers === 0;
  if (waiting > 0 && (isNoneReady || oldest > LONG_WAIT_MS)) {
    return `${jobsWait(waiting)} ${span(oldest)} because ${config.why_waiting}`;
  }
  return isNoneReady && config.workers > 0 ? whyNoneReady(own, now) : null;
}

/** Nothing is ready and nothing waits. @param scaled configs that the scheduler starts workers for */
function scaledToZero(scaled: readonly ConfigRow[]): { verdict: Verdict; text: string } {
  if (!scaled.some(({ scaling }) => heldBack(scaling) === null)) {
    return { verdict: 'not_serving', text: 'No worker is running.' };
  }
  return { verdict: 'serving', text: 'Scaled to zero: a worker is started when work comes.' };
}

function served(inUse: readonly ConfigRow[], workers: readonly WorkerRow[]): string {
  const ready = workers.filter(({ state }) => isReady(state)).length;
  const there = workers.filter(({ state }) => atWork(state)).length;
  const what =
    inUse.length === 1 ? `${inUse[0]?.config_id} is served` : `All ${inUse.length} configs are served`;
  const who = ready === there ? counted(ready, 'worker') : `${ready} of ${there} workers`;
  const down = DOWN.flatMap(([state, words]) => {
    const count = workers.filter((worker) => worker.state === state).length;
    return count > 0 ? `, ${count} ${words}` : '';
  });
  return `${what}: ${who} ready${down.join('')}.`;
}

/** Workers that others make up for, but not by themselves. */
const DOWN = [
  ['error', 'in error'],
  ['lost', 'lost'],
  ['paused', 'paused'],
] as const;

function sum<T>(list: readonly T[], of: (one: T) => number): number {
  return list.reduce((total, one) => total + of(one), 0);
}
