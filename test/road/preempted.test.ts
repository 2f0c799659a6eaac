import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { LedgerView } from '../../src/protocol/index.ts';
import { fleetView } from '../support/fleet-road.ts';
import { MetadataService } from '../support/metadata-service.ts';
import { until } from '../support/poll.ts';
import { killGroup } from '../support/processes.ts';
import {
  chatJob,
  HELD,
  type QueueProcess,
  readyWorker,
  setPaces,
  settled,
  startQueue,
  startWorker,
  stateFolder,
  submit,
  tearDown,
  type WorkerProcess,
  workers,
} from '../support/road.ts';

/** Workers whose spot machine is taken away, with a notice of the provider and without one. */
let queue: QueueProcess;
const running: WorkerProcess[] = [];
const services: MetadataService[] = [];

beforeAll(async () => {
  queue = await startQueue();
});
afterEach(async () => {
  await Promise.all(running.splice(0).map(({ process }) => process.stop()));
  await Promise.all(services.splice(0).map((service) => service.close()));
});
afterAll(tearDown);

const STREAMS = 64;
const JOBS = 8;
/** Sixteen seconds at the pace of `load`: longer than the shortest notice. */
const TOKENS = 200;

async function start(id: string, env: NodeJS.ProcessEnv = {}): Promise<WorkerProcess> {
  const worker = await readyWorker(queue.url, id, {
    engineArgs: `${HELD} --enable-scale-out`,
    env: {
      CASOLA_MAX_JOBS: String(STREAMS + JOBS),
      CASOLA_API_URL: queue.url,
      CASOLA_SHUTDOWN_GRACE_PERIOD: '1',
      ...env,
    },
  });
  running.push(worker);
  return worker;
}

/** Has what runs end soon: nothing is to be seen of it any more. */
const hasten = (...workers: WorkerProcess[]) => setPaces(workers, 1);

async function service(kind: MetadataService['kind']): Promise<MetadataService> {
  const made = await MetadataService.start(kind);
  services.push(made);
  return made;
}

/** Asks for a stream, and says once its first tokens are there. */
async function ask(at: number) {
  const response = await fetch(`${queue.url}/v1/chat/completions`, {
    method: 'POST',
    body: JSON.stringify({
      model: 'tiny',
      messages: [{ role: 'user', content: `Tell me about number ${at}.` }],
      stream: true,
      stream_options: { include_usage: true },
      ignore_eos: true,
      max_tokens: TOKENS,
    }),
  });
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let text = (await reader.read()).value ?? '';
  const rest = async () => {
    for (let part = await reader.read(); !part.done; part = await reader.read()) text += part.value;
    return text;
  };
  return { id: response.headers.get('x-job-id')!, whole: rest() };
}

/** Streams and stored jobs at both workers, which run when this resolves. */
async function load() {
  const streams = await Promise.all(Array.from({ length: STREAMS }, (_, at) => ask(at)));
  const jobs = await Promise.all(Array.from({ length: JOBS }, () => submit(queue.url, chatJob(TOKENS))));
  await until(async () => {
    const all = await workers(queue.url);
    return all.reduce((sum, worker) => sum + worker.running, 0) === STREAMS + JOBS;
  }, 'all of it runs');
  await setPaces(running, 80);
  return { streams, jobs: jobs.map(({ id }) => id) };
}

async function stepsOf(id: string): Promise<LedgerView['steps']> {
  return ((await (await fetch(`${queue.url}/api/jobs/${id}/ledger`)).json()) as LedgerView).steps;
}

async function expectNoneFailed({ streams, jobs }: Awaited<ReturnType<typeof load>>): Promise<void> {
  for (const { whole } of streams) {
    const text = await whole;
    expect(text).toMatch(/data: \[DONE\]\n\n$/);
    expect(text).not.toContain('"error"');
    expect(text).toContain(`"completion_tokens":${TOKENS}`);
    expect(text.match(/"finish_reason":"length"/g)).toHaveLength(1);
  }
  for (const id of jobs) expect((await settled(queue.url, id)).state).toBe('succeeded');
}

const row = async (id: string) =>
  (await fleetView(queue.url)).workers.find(({ worker_id }) => worker_id === id);

describe('a machine that is taken away', () => {
  it.each([
    ['aws', 120],
    ['google', 30],
    ['azure', 30],
  ] as const)('loses nothing after a notice of %s, %i s before', async (kind, seconds) => {
    const cloud = await service(kind);
    const leaving = await start(`leaving-${kind}`, { CASOLA_METADATA_URL: cloud.url });
    await leaving.process.waitForLine(/this is a machine of/);
    const staying = await start(`staying-${kind}`);
    const all = await load();
    cloud.giveNotice(seconds);
    await leaving.process.waitForLine(/this machine is taken away, says/);
    await until(async () => (await row(leaving.id))?.preempted, 'the page says so');
    await hasten(staying);
    // On a machine so busy that what runs would not fit into the notice it has moved, and the worker has ended.
    await hasten(leaving).catch(() => {});
    await expectNoneFailed(all);
    expect((await leaving.process.exited).code).toBe(0);
    await until(async () => (await row(leaving.id))?.state === 'stopped', 'the page knows that it ended');
    expect(await row(leaving.id)).toMatchObject({ preempted: true });
    for (const id of all.jobs)
      expect((await stepsOf(id)).map(({ step }) => step)).not.toContain('attempt_failed');
    expect(cloud.started).toEqual(kind === 'azure' ? ['e1'] : []);
  });

  it('loses nothing after a notice of a file, 5 s before: what runs goes on elsewhere, uncharged', async () => {
    const file = join(stateFolder(), 'notice');
    const leaving = await start('leaving-file', { CASOLA_NOTICE_FILE: file });
    const staying = await start('staying-file');
    const all = await load();
    writeFileSync(file, '5');
    await sleep(5000);
    killGroup(leaving.process.pid);
    await hasten(staying);
    await expectNoneFailed(all);
    const ledgers = await Promise.all(all.jobs.map(stepsOf));
    const steps = ledgers.flat();
    expect(steps.filter(({ step }) => step === 'attempt_failed')).toEqual([]);
    expect(steps).toContainEqual(
      expect.objectContaining({
        step: 'released',
        worker_id: leaving.id,
        detail: 'draining: its machine is being taken away',
      }),
    );
  });

  it('loses no job without a notice', async () => {
    const leaving = await start('leaving-silently');
    const staying = await start('staying-silently');
    const all = await load();
    killGroup(leaving.process.pid);
    await hasten(staying);
    await expectNoneFailed(all);
  });

  it('ends a worker at its start when the notice is there already', async () => {
    const file = join(stateFolder(), 'notice');
    writeFileSync(file, new Date(Date.now() + 60_000).toISOString());
    const env = { CASOLA_NOTICE_FILE: file, CASOLA_API_URL: queue.url };
    const late = await startWorker(queue.url, 'late', { env });
    expect((await late.process.exited).code).toBe(0);
    await until(async () => (await row('late'))?.state === 'stopped', 'the page knows that it ended');
    expect(await row('late')).toMatchObject({ preempted: true });
  });
});
