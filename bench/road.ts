import { commandLine } from '../test/soak/proc.ts';
import * as ownSupport from '../test/support/road.ts';
import { type Effort, scaled } from './effort.ts';
import { runLoad } from './load/index.ts';
import { descendantsOf } from './machine.ts';

/** The whole road on this machine, and the process ids that figures are taken of. */
export interface BenchRoad {
  queueUrl: string;
  engineUrl: string;
  pids: { queue: number; worker: number; engine: number };
  /** The processes that were started, of which all others come. */
  roots: number[];
}

/** Bundled, or as the sources stand. */
const WORKER = /programs\/worker|src\/worker\/main/;

/** The functions that start a road, of this checkout or of another one. */
export type RoadSupport = Pick<typeof ownSupport, 'readyWorker' | 'startQueue'>;

/** One queue and one worker with the simulator as its engine. @param env more for the queue */
export async function startRoad(
  slots = 256,
  support: RoadSupport = ownSupport,
  env: NodeJS.ProcessEnv = {},
): Promise<BenchRoad> {
  const queue = await support.startQueue({ env });
  const worker = await support.readyWorker(queue.url, 'bench', {
    engineArgs: `--disable-uvicorn-access-log --max-num-seqs ${slots}`,
    env: { CASOLA_MAX_JOBS: String(slots), LOG_LEVEL: 'warn' },
  });
  return {
    queueUrl: queue.url,
    engineUrl: worker.engineUrl,
    pids: {
      queue: processOf(queue),
      worker: descendant(worker.process.pid, WORKER),
      engine: descendant(worker.process.pid, /simulator/),
    },
    roots: [queue.process.pid, worker.process.pid],
  };
}

/** All processes of a road but its engine. */
export function processesOf({ roots, pids }: BenchRoad): number[] {
  return roots.flatMap((root) => [root, ...descendantsOf(root)]).filter((pid) => pid !== pids.engine);
}

/**
 * Returns the process id of a queue. A checkout of an earlier version, which is compared with this one, runs it in
 * workerd.
 */
export function processOf({ process: { pid } }: ownSupport.QueueProcess): number {
  const workerd = descendantsOf(pid).find((child) => /workerd\S* serve/.test(commandLine(child)));
  return workerd ?? pid;
}

/** Short requests after which the engines of JavaScript on the road have compiled what is used much. */
export const WARM_UP_REQUESTS = 20_000;

/** Brings the road to where it is after a minute of work: its first thousand requests cost up to three times as much. */
export async function warmUp(road: BenchRoad, effort: Effort): Promise<void> {
  await pace(road.engineUrl, 0);
  const requests = scaled(WARM_UP_REQUESTS, effort);
  await runLoad({ url: road.queueUrl, arrivals: { kind: 'closed', callers: 64, requests }, tokens: 1 });
}

/** Sets how fast the simulator answers, ms. */
export async function pace(engineUrl: string, interTokenMs: number): Promise<void> {
  const response = await fetch(`${engineUrl}/simulator/pace`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ time_to_first_token_ms: 0, inter_token_latency_ms: interTokenMs }),
  });
  if (!response.ok) throw new Error(`the simulator's pace: ${response.status} ${await response.text()}`);
}

function descendant(pid: number, pattern: RegExp): number {
  const found = descendantsOf(pid).find((below) => pattern.test(commandLine(below)));
  if (found === undefined) throw new Error(`no process below ${pid} matches ${pattern}`);
  return found;
}
