import { createRequire } from 'node:module';
import { PEERS } from './peer-server.ts';
import { type DurablePlan, keepInFlight, payloadOf, resultOf, runProgram } from './plan.ts';

/** BullMQ as its documents have it: a queue, workers with a concurrency, and results by queue events. */

// Not a dependency of the project: `node bench/setup.ts` puts it beside the bench.
const { Queue, QueueEvents, Worker } = createRequire(`${PEERS}/`)('bullmq');
const NAME = 'durable';

await runProgram({
  async work(plan) {
    const result = resultOf(plan);
    const worker = new Worker(NAME, async () => result, {
      connection: addressOf(plan),
      concurrency: plan.slots,
    });
    await worker.waitUntilReady();
  },
  async connect(plan) {
    const connection = addressOf(plan);
    const queue = new Queue(NAME, { connection });
    const events = new QueueEvents(NAME, { connection });
    // One for each result that is waited for; without this Node prints a warning for every eleventh.
    queue.setMaxListeners(0);
    events.setMaxListeners(0);
    await events.waitUntilReady();
    await queue.waitUntilReady();
    const payload = payloadOf(plan);
    return () =>
      keepInFlight(plan, async () => {
        const job = await queue.add('job', payload);
        await job.waitUntilFinished(events);
      });
  },
});

function addressOf({ url }: DurablePlan): { host: string; port: number } {
  const { hostname, port } = new URL(url);
  return { host: hostname, port: Number(port) };
}
