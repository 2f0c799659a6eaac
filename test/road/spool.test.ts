import { readdirSync, readFileSync } from 'node:fs';
import { afterAll, expect, test } from 'vitest';
import { until } from '../support/poll.ts';
import {
  chatJob,
  engineRunning,
  HELD,
  readyWorker,
  setPace,
  settled,
  startQueue,
  startWorker,
  stateFolder,
  submit,
  tearDown,
  untilReady,
  type WorkerProcess,
} from '../support/road.ts';

/** A worker process that is killed with a result which the queue has not heard of. */
afterAll(tearDown);

/** The worker's own process, below its supervisor. */
function workerPid(of: WorkerProcess): number {
  const children = readFileSync(`/proc/${of.process.pid}/task/${of.process.pid}/children`, 'utf8');
  const pid = children
    .trim()
    .split(' ')
    .find((child) => readFileSync(`/proc/${child}/cmdline`, 'utf8').includes('programs/worker.js'));
  if (!pid) throw new Error('no worker process');
  return Number(pid);
}

function resultsIn(spoolDir: string): string[] {
  return readdirSync(spoolDir, { recursive: true, encoding: 'utf8' }).filter((name) =>
    name.endsWith('.result'),
  );
}

test.each([
  ['an engine that is up at once', '', true],
  ['an engine that is not up yet', '--startup-seconds 600', false],
])(
  'a result outlives kill -9 and is sent by the next process, with %s',
  async (_case, engineArgs, becomesReady) => {
    const spoolDir = stateFolder();
    const env = { WORKER_SPOOL_DIR: spoolDir, VLLM_STARTUP_TIMEOUT: '900' };
    // Long enough for two processes to start on a busy machine.
    const grace = { QUEUE_RECONNECT_GRACE_SECONDS: '120' };
    const queue = await startQueue({ env: grace });
    const first = await readyWorker(queue.url, 'keeper', { engineArgs: HELD, env });
    const { id } = await submit(queue.url, chatJob(200));
    await until(async () => (await engineRunning(first.engineUrl)) === 1, 'the engine runs it');
    await queue.process.stop();
    await setPace(first.engineUrl, 0);
    await until(() => resultsIn(spoolDir).length === 1, 'the result is on disk');
    process.kill(workerPid(first), 'SIGKILL');
    await first.process.exited;

    const second = await startWorker(queue.url, 'keeper', { engineArgs, env });
    await startQueue({ ...queue, env: grace });
    expect(await settled(queue.url, id)).toMatchObject({
      state: 'succeeded',
      attempts: 1,
      attempt_errors: [],
      worker_id: 'keeper',
      result: { completion: { usage: { completion_tokens: 200 } } },
    });
    await until(() => resultsIn(spoolDir).length === 0, 'the file is gone');
    if (becomesReady) {
      await untilReady(queue.url, 'keeper');
      const metrics = await (await fetch(`${second.engineUrl}/metrics`)).text();
      const asked = [...metrics.matchAll(/^vllm:request_success_total\{.*\} (\S+)$/gm)].map((line) =>
        Number(line[1]),
      );
      // The worker's own first request, and no job.
      expect(asked.reduce((total, count) => total + count, 0)).toBe(1);
    } else {
      expect(second.process.output()).not.toContain('taking jobs');
    }
    await second.process.stop();
  },
);
