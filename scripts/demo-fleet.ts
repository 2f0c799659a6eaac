import { setTimeout as sleep } from 'node:timers/promises';
import { commandLine, wholeFrom } from './command-line.ts';
import { type DemoPart, PARTS, POOLS } from './demo/cast.ts';
import { startDemoLaunches } from './demo/launches.ts';
import { DemoLoad } from './demo/load.ts';
import { startDemoQueue } from './demo/queue.ts';
import { type DemoQueue, DemoWorker } from './demo/worker.ts';

/**
 * A fleet to look at: 20 workers of four pools under load, among them one that loads, one that is lost, one that
 * drains and one in error, and a fifth pool whose workers the scheduler starts and ends as work comes and goes. Without
 * the address of a queue it starts one of its own, with a made-up day behind it and thrown away at the end.
 */
export interface DemoFleet {
  /** Resolves when the worker that vanishes counts as lost, and the one that drains does so. */
  settled: Promise<void>;
  /** Gives the pool of the scheduler the next image: its workers are replaced, or the image turns out to be broken. */
  roll(): Promise<void>;
  stop(): Promise<void>;
}

/** The share of its start that the loading worker has behind it when the page is opened. */
const LOADED = 0.3;
const READY_FOR_MS = 60_000;
/** The time until jobs have spread over the workers. */
const SPREAD_MS = 6000;
/** The time until the vanished worker is lost: three of its intervals, its grace to return, and a little more. */
const LOST_MS = 18_000;

/** The pool of the scheduler is given another image this often. */
const ROLL_EVERY_MS = 3 * 60_000;

export function startDemoFleet(queue: DemoQueue): DemoFleet {
  const stopped = new AbortController();
  const workers = new Map(PARTS.map((part) => [part.workerId, new DemoWorker(part, queue)]));
  const load = new DemoLoad(queue);
  const launches = startDemoLaunches(queue);
  for (const [, worker] of workers) {
    if (worker.part.role === 'loads') void keepLoading(worker.part);
    else if (worker.part.role === 'fails') worker.fail();
    else worker.begin();
  }
  // The queue refuses a model that nobody serves yet.
  for (const pool of POOLS) {
    const first = [...workers.values()].find(({ part }) => part.pool === pool && part.role === 'works');
    void first?.ready.then(() => load.start(pool));
  }

  /** Each start is another process under the same id. */
  async function keepLoading(part: DemoPart): Promise<void> {
    for (let share = LOADED; !stopped.signal.aborted; share = 0) {
      const ageSeconds = share * part.pool.startSeconds;
      const worker = new DemoWorker({ ...part, ageSeconds }, queue);
      workers.set(part.workerId, worker);
      await worker.load(share);
      await sleep(READY_FOR_MS, undefined, { signal: stopped.signal }).catch(() => {});
      await worker.stop();
    }
  }

  async function settle(): Promise<void> {
    const pause = (ms: number) => sleep(ms, undefined, { signal: stopped.signal });
    const of = (role: DemoPart['role']) => [...workers.values()].filter(({ part }) => part.role === role);
    const [vanishing, draining] = [of('vanishes'), of('drains')];
    await Promise.all([...vanishing, ...draining].map(({ ready }) => ready));
    await pause(SPREAD_MS);
    for (const worker of vanishing) worker.vanish();
    for (const worker of draining) {
      // Without a job the worker's drain would be over at once.
      while (worker.engine.load === 0) await pause(SPREAD_MS / 10);
      worker.drain();
    }
    await pause(LOST_MS);
  }

  return {
    settled: settle().catch(() => {}),
    roll: async () => await (await launches).roll(),
    stop: async () => {
      stopped.abort();
      load.stop();
      await Promise.all([...workers.values()].map((worker) => worker.stop()));
      await (await launches).stop();
    },
  };
}

async function main(): Promise<void> {
  const given = commandLine('node scripts/demo-fleet.ts', 'plays a fleet of workers under load, all made up')
    .option('--url <address>', 'of the queue that it reports to; else it starts one')
    .option('--token <text>', 'for that queue')
    .option('--port <number>', 'of the queue that it starts', wholeFrom(0), 8788)
    .parse()
    .opts<{ url?: string; token?: string; port: number }>();
  const own = given.url === undefined ? await startDemoQueue(String(given.port)) : null;
  const url = (given.url ?? own!.url).replace(/\/+$/, '');
  const fleet = startDemoFleet({ url, token: given.token });
  const rolling = setInterval(() => void fleet.roll().catch(console.error), ROLL_EVERY_MS);
  console.log(`A fleet of ${PARTS.length} workers under load, all made up: ${url}/\nCtrl-C ends it.`);
  await new Promise((resolve) => {
    process.once('SIGINT', resolve);
    process.once('SIGTERM', resolve);
  });
  clearInterval(rolling);
  await fleet.stop();
  await own?.stop();
}

if (import.meta.main) await main();
