import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { ensureClients } from '../scripts/clients/setup.ts';
import { commandLine, wholeFrom } from '../scripts/command-line.ts';
import { FakeServerless } from '../test/support/fake-serverless.ts';
import { until } from '../test/support/poll.ts';
import { freePort } from '../test/support/ports.ts';
import { type Child, startProcess } from '../test/support/processes.ts';
import { cleanEnvironment, cli, tearDown } from '../test/support/road.ts';
import { median, sum } from './statistics.ts';

/**
 * This worker in a RunPod endpoint beside the loop of RunPod's own SDK, and beside the least loop that does the same on
 * Node (runpod/bare-loop.ts): the same platform (the tests' fake, on loopback), the same engine (the simulator, which
 * answers at once), the same jobs. All three stay up, and work in short turns.
 *
 * Jobs a second: from the submission of all to the end of the last. Processor: of the worker's processes meanwhile,
 * without the engine. First piece: from the submission of one job that streams to the first post of its stream.
 */
const given = commandLine(
  'node bench/runpod.ts',
  "measures this worker in a RunPod endpoint beside the loop of RunPod's own SDK",
)
  .option('--rounds <count>', 'turns of each', wholeFrom(1), 5)
  .option('--jobs <count>', 'jobs of a turn', wholeFrom(1), 600)
  .option('--concurrency <count>', 'jobs at once', wholeFrom(1), 30)
  .parse()
  .opts<{ rounds: number; jobs: number; concurrency: number }>();
const JOBS = given.jobs;
const STREAMS = 10;
/** All compile and fill their caches before anything is counted: V8 is done after some 2,000 jobs. */
const WARM_JOBS = 2000;
/** The interval of the platform; the tests' own is shorter. Logs are as each side writes them where nothing is set. */
const PING_INTERVAL_MS = '10000';
/** The ticks of /proc a second. */
const TICKS = 100;

const OURS = 'this worker';
const SDK = 'RunPod’s SDK';
const BARE = 'the bare loop';

interface Figures {
  jobsPerSecond: number;
  /** ms a job. */
  processor: number;
  /** Median, ms; null: it does not stream. */
  firstPiece: number | null;
}

/** A worker in an endpoint of its own. */
interface Side {
  name: string;
  platform: FakeServerless;
  worker: Child;
}

const input = (tokens: number, more: object = {}) => ({
  prompt: 'Say something.',
  sampling_params: { max_tokens: tokens, ignore_eos: true },
  ...more,
});

async function main(): Promise<void> {
  const { python } = await ensureClients();
  const port = await freePort();
  cli(['simulate', 'tiny', '--port', String(port), '--disable-uvicorn-access-log']);
  const ENGINE_URL = `http://127.0.0.1:${port}`;
  await until(async () => (await fetch(`${ENGINE_URL}/health`)).ok, 'the engine is healthy');
  const sides: Side[] = [];
  try {
    sides.push(
      await start(OURS, (env) => cli(['supervise'], { ...env, ENGINE_URL })),
      await start(BARE, (env) => script(process.execPath, ['bare-loop.ts'], { ...env, ENGINE_URL })),
      await start(SDK, (env) =>
        script(python, ['-u', 'handler.py'], {
          ...env,
          ...{ ENGINE_URL, RUNPOD_SKIP_AUTO_SYSTEM_CHECKS: 'true' },
        }),
      ),
    );
    await runRounds(sides);
  } finally {
    for (const { worker, platform } of sides) {
      worker.kill('SIGKILL');
      platform.close();
    }
    await tearDown();
  }
}

async function runRounds(sides: Side[]): Promise<void> {
  for (const side of sides) await runAll(side, 'warm', WARM_JOBS);
  const all = new Map<string, Figures[]>(sides.map(({ name }) => [name, []]));
  for (let round = 1; round <= given.rounds; round++) {
    for (const side of sides) {
      const figures = await measure(side, round);
      all.get(side.name)!.push(figures);
      console.log(`round ${round}, ${side.name}: ${describe(figures)}`);
    }
    const ofSdk = all.get(SDK)!.at(-1)!.processor;
    const shares = [OURS, BARE].map(
      (name) => `${name} ${(all.get(name)!.at(-1)!.processor / ofSdk).toFixed(2)}`,
    );
    console.log(`round ${round}, processor as a share of the SDK's: ${shares.join(', ')}`);
  }
  for (const [name, figures] of all) console.log(`median, ${name}: ${describe(medians(figures))}`);
}

async function start(name: string, run: (env: NodeJS.ProcessEnv) => Child): Promise<Side> {
  const platform = new FakeServerless();
  const worker = run({
    ...(await platform.listen()),
    ...{ RUNPOD_PING_INTERVAL: PING_INTERVAL_MS, MAX_CONCURRENCY: String(given.concurrency) },
    ...{ NO_PROXY: '*', no_proxy: '*' },
  });
  await until(() => platform.of('take').length > 0, `${name} asks for jobs`);
  return { name, platform, worker };
}

function script(program: string, args: string[], env: NodeJS.ProcessEnv): Child {
  const paths = args.map((arg) => (arg.startsWith('-') ? arg : join(import.meta.dirname, 'runpod', arg)));
  return startProcess(program, paths, { env: cleanEnvironment(env) });
}

async function measure(side: Side, round: number): Promise<Figures> {
  const { name, platform, worker } = side;
  const before = processorMs(worker);
  const seconds = await runAll(side, `job${round}-`, JOBS);
  const processor = (processorMs(worker) - before) / JOBS;
  const firsts: number[] = [];
  for (let n = 0; n < STREAMS && name !== BARE; n++) {
    firsts.push(await firstPieceMs(platform, `stream${round}-${n}`));
  }
  if (platform.violations.length > 0) throw new Error(platform.violations[0]);
  return { jobsPerSecond: JOBS / seconds, processor, firstPiece: firsts.length > 0 ? median(firsts) : null };
}

/** @returns seconds */
async function runAll({ platform }: Side, name: string, count: number): Promise<number> {
  // What earlier turns left would slow the platform down.
  platform.jobs.clear();
  platform.requests.length = 0;
  const ids = Array.from({ length: count }, (_, index) => `${name}${index}`);
  const from = performance.now();
  for (const id of ids) platform.submit(id, input(16));
  await until(() => platform.isOver(...ids), 'all jobs are over', { timeoutMs: 300_000, everyMs: 5 });
  const failed = ids.map((id) => platform.jobs.get(id)!).find(({ status }) => status === 'FAILED');
  if (failed) throw new Error(`${failed.id} failed: ${failed.error}`);
  return (platform.of('done').at(-1)!.atMs - from) / 1000;
}

async function firstPieceMs(platform: FakeServerless, id: string): Promise<number> {
  const from = performance.now();
  platform.submit(id, input(32, { stream: true }));
  await until(() => platform.isOver(id), 'it is over');
  return platform.of('stream', id)[0]!.atMs - from;
}

/** Returns the processor time that a process and all that it started have used, ms. */
function processorMs({ pid }: Child): number {
  const all = readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map((name) => ({ pid: Number(name), fields: fieldsOf(name) }));
  const family = new Set([pid]);
  for (let before = 0; before < family.size; ) {
    before = family.size;
    for (const { pid: child, fields } of all) if (family.has(Number(fields[1]))) family.add(child);
  }
  const used = all
    .filter((each) => family.has(each.pid))
    // utime, stime, and those of children that have ended.
    .flatMap(({ fields }) => fields.slice(11, 15).map(Number));
  return (sum(used) * 1000) / TICKS;
}

/** Returns the fields of a process's stat, from the state on: those before may hold blanks. */
function fieldsOf(pid: string): string[] {
  try {
    return readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)!.split(' ');
  } catch {
    return [];
  }
}

function medians(figures: Figures[]): Figures {
  const firsts = figures.map(({ firstPiece }) => firstPiece).filter((each) => each !== null);
  return {
    jobsPerSecond: median(figures.map(({ jobsPerSecond }) => jobsPerSecond)),
    processor: median(figures.map(({ processor }) => processor)),
    firstPiece: firsts.length > 0 ? median(firsts) : null,
  };
}

function describe({ jobsPerSecond, processor, firstPiece }: Figures): string {
  const streamed = firstPiece === null ? '' : `, first piece after ${firstPiece.toFixed(1)} ms`;
  return `${jobsPerSecond.toFixed(1)} jobs/s, ${processor.toFixed(2)} ms of processor a job${streamed}`;
}

await main();
