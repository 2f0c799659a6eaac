import { afterAll, expect, it } from 'vitest';
import { until } from '../support/poll.ts';
import { type Receiver, startReceiver } from '../support/receiver.ts';
import { chatJob, job, readyWorker, startQueue, submit, tearDown } from '../support/road.ts';

const receivers: Receiver[] = [];
afterAll(async () => {
  await tearDown();
  await Promise.all(receivers.map((receiver) => receiver.stop()));
});

async function receiver(status: number | null): Promise<Receiver> {
  const started = await startReceiver({ status });
  receivers.push(started);
  return started;
}

it('a worker whose queue is connected and answers nothing ends in order, with its last lines', async () => {
  const queue = await startQueue();
  const [logs, spans] = [await receiver(200), await receiver(null)];
  const worker = await readyWorker(queue.url, 'unheard', {
    engineArgs: '--inter-token-latency-ms 100',
    env: {
      CASOLA_SHUTDOWN_GRACE_PERIOD: '1',
      CASOLA_LOGS_URL: `${logs.url}/logs`,
      OTEL_EXPORTER_OTLP_ENDPOINT: spans.url,
    },
  });
  const { id } = await submit(queue.url, chatJob(4000));
  await until(async () => (await job(queue.url, id)).state === 'leased', 'the job runs');
  queue.process.kill('SIGSTOP');
  try {
    worker.process.kill('SIGTERM');
    expect(await worker.process.exited).toMatchObject({ code: 0 });
  } finally {
    queue.process.kill('SIGCONT');
  }
  expect(worker.process.output()).not.toContain('did not end in time');
  const lines = () => logs.posts.flatMap(({ body }) => body.entries as { message: string }[]);
  // This process may read the last post only after the worker has ended.
  await until(
    () => lines().some(({ message }) => message.includes('worker ended')),
    'the last lines are there',
  );
});
