import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { ensureClients } from '../scripts/clients/setup.ts';
import { FakeServerless } from '../test/support/fake-serverless.ts';
import { until } from '../test/support/poll.ts';
import { freePort } from '../test/support/ports.ts';
import { type Child, startProcess } from '../test/support/processes.ts';
import { cleanEnvironment, cli, tearDown } from '../test/support/road.ts';

/**
 * This worker in a RunPod endpoint beside the loop of RunPod's own SDK, in turns: the same platform (the tests' fake, on
 * loopback), the same engine (the simulator, which answers at once), the same jobs.
 *
 *   npm run bench:runpod [-- --rounds 3] [--jobs 1500] [--concurrency 30]
 *
 * Jobs a second: from the submission of all to the end of the last. Processor: of the worker's processes meanwhile,
 * without the engine. First piece: from the submission of one job that streams to the first post of its stream.
 */
const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '3' },
    jobs: { type: 'string', default: '1500' },
    concurrency: { type: 'string', default: '30' },
  },
});
const JOBS = Number(values.jobs);
const STREAMS = 20;
/** Both sides compile and fill their caches before anything is counted: V8 is done after some 2,000 jobs. */
const WARM_JOBS = 2000;
/** Of the platform; the tests' own is shorter. Logs are as each side writes them where nothing is set. */
const PING_INTERVAL_MS = '10000';
/** Of /proc, a second. */
const TICKS = 100;

interface Figures {
  jobsPerSecond: number;
  /** ms a job. */
  processor: number;
  /** Median, ms. */
  firstPiece: number;
}

type Start = (env: NodeJS.ProcessEnv) => Child;

const input = (tokens: number, more: object = {}) => ({
  prompt: 'Say something.',
  sampling_params: { max_tokens: tokens, ignore_eos: true },
  ...more,
});

async function main(): Promise<void> {
  const { python } = await ensureClients();
  const port = await freePort();
  const engine = cli(['simulate', 'tiny', '--port', String(port), '--disable-uvicorn-access-log']);
  const engineUrl = `http://127.0.0.1:${port}`;
  await until(async () => (await fetch(`${engineUrl}/health`)).ok, 'the engine is healthy');
  const workers: Record<string, Start> = {
    'this worker': (env) => cli(['supervise'], { ...env, ENGINE_URL: engineUrl }),
    'RunPod’s SDK': (env) =>
      startProcess(python, ['-u', join(import.meta.dirname, 'runpod/handler.py')], {
        env: cleanEnvironment({ ...env, ENGINE_URL: engineUrl, RUNPOD_SKIP_AUTO_SYSTEM_CHECKS: 'true' }),
      }),
  };
  const all: Record<string, Figures[]> = {};
  for (let round = 1; round <= Number(values.rounds); round++) {
    for (const [name, start] of Object.entries(workers)) {
      const figures = await measure(start);
      all[name] = [...(all[name] ?? []), figures];
      console.log(`round ${round}, ${name}: ${describe(figures)}`);
    }
  }
  for (const [name, figures] of Object.entries(all)) {
    console.log(`median, ${name}: ${describe(medians(figures))}`);
  }
  await engine.stop();
  await tearDown();
}

async function measure(start: Start): Promise<Figures> {
  const platform = new FakeServerless();
  const worker = start({
    ...(await platform.listen()),
    ...{ RUNPOD_PING_INTERVAL: PING_INTERVAL_MS, MAX_CONCURRENCY: values.concurrency },
    ...{ NO_PROXY: '*', no_proxy: '*' },
  });
  try {
    await until(() => platform.of('take').length > 0, 'it asks for jobs');
    await runAll(platform, 'warm', WARM_JOBS);
    const before = processorMs(worker);
    const seconds = await runAll(platform, 'job', JOBS);
    const processor = (processorMs(worker) - before) / JOBS;
    const firsts: number[] = [];
    for (let n = 0; n < STREAMS; n++) firsts.push(await firstPieceMs(platform, `stream${n}`));
    if (platform.violations.length > 0) throw new Error(platform.violations[0]);
    return { jobsPerSecond: JOBS / seconds, processor, firstPiece: median(firsts) };
  } finally {
    worker.kill('SIGKILL');
    await worker.stop();
    platform.close();
  }
}

/** @returns seconds */
async function runAll(platform: FakeServerless, name: string, count: number): Promise<number> {
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

/** What a process and all that it started have used, ms. */
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
  return (used.reduce((sum, ticks) => sum + ticks, 0) * 1000) / TICKS;
}

/** Of its stat, from the state on: what stands before may hold blanks. */
function fieldsOf(pid: string): string[] {
  try {
    return readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)!.split(' ');
  } catch {
    return [];
  }
}

function medians(figures: Figures[]): Figures {
  const of = (name: keyof Figures) => median(figures.map((each) => each[name]));
  return { jobsPerSecond: of('jobsPerSecond'), processor: of('processor'), firstPiece: of('firstPiece') };
}

function median(numbers: number[]): number {
  return numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)]!;
}

function describe({ jobsPerSecond, processor, firstPiece }: Figures): string {
  return (
    `${jobsPerSecond.toFixed(1)} jobs/s, ${processor.toFixed(2)} ms of processor a job, ` +
    `first piece after ${firstPiece.toFixed(1)} ms`
  );
}

await main();
