import { createRequire } from 'node:module';
import { PEERS } from './peer-server.ts';
import { type DurablePlan, printRate } from './plan.ts';

/** The same with BullMQ: one process submits, works and waits for every result; prints the rate. */

const plan = JSON.parse(process.argv[2] ?? '') as DurablePlan;
// Not a dependency of the project: `npm run bench:setup` puts it beside the bench.
const { Queue, QueueEvents, Worker } = createRequire(`${PEERS}/`)('bullmq');
const { hostname: host, port } = new URL(plan.url);
const connection = { host, port: Number(port) };
const name = 'durable';
const queue = new Queue(name, { connection });
const events = new QueueEvents(name, { connection });
const result = { status: 'success', text: 'y'.repeat(plan.bytes) };
const data = { messages: [{ role: 'user', content: 'x'.repeat(plan.bytes) }] };
const BATCH = 16;

for (let n = 0; n < 2; n++)
  new Worker(name, async () => result, { connection, concurrency: plan.inFlight / 2 });
await events.waitUntilReady();
await queue.waitUntilReady();
let submitted = 0;
await printRate(plan.jobs, () => Promise.all(Array.from({ length: plan.inFlight / BATCH }, submitUntilDone)));

async function submitUntilDone(): Promise<void> {
  while (submitted < plan.jobs) {
    submitted += BATCH;
    const jobs = await queue.addBulk(Array.from({ length: BATCH }, () => ({ name: 'job', data })));
    await Promise.all(
      jobs.map((job: { waitUntilFinished(events: unknown): Promise<unknown> }) =>
        job.waitUntilFinished(events),
      ),
    );
  }
}
