import { createRequire } from 'node:module';
import { PEERS } from './peer-server.ts';
import { type DurablePlan, printRate } from './plan.ts';

/**
 * The same with JetStream: jobs in a work queue, results in a stream of their own, both on disk before they are
 * acknowledged; one process submits, works and waits for every result; prints the rate.
 */

const plan = JSON.parse(process.argv[2] ?? '') as DurablePlan;
// Not a dependency of the project: `npm run bench:setup` puts it beside the bench.
const load = createRequire(`${PEERS}/`);
const { connect } = load('@nats-io/transport-node');
const { jetstream, jetstreamManager } = load('@nats-io/jetstream');
const BATCH = 16;

interface Message {
  json(): { id: number };
  ack(): void;
}
type Consumer = { consume(options: object): Promise<AsyncIterable<Message>> };

const connection = await connect({ servers: plan.url });
const stream = jetstream(connection);
const manager = await jetstreamManager(connection);
await manager.streams.add({ name: 'jobs', subjects: ['jobs'], storage: 'file', retention: 'workqueue' });
await manager.streams.add({ name: 'results', subjects: ['results'], storage: 'file' });
await manager.consumers.add('jobs', {
  durable_name: 'workers',
  ack_policy: 'explicit',
  max_ack_pending: plan.inFlight,
});
const results = new Map<number, () => void>();
void readResults(await stream.consumers.get('results'));
for (let n = 0; n < 2; n++) void work(await stream.consumers.get('jobs', 'workers'));

const messages = [{ role: 'user', content: 'x'.repeat(plan.bytes) }];
const text = 'y'.repeat(plan.bytes);
let submitted = 0;
await printRate(plan.jobs, () => Promise.all(Array.from({ length: plan.inFlight / BATCH }, submitUntilDone)));

async function submitUntilDone(): Promise<void> {
  while (submitted < plan.jobs) {
    const ids = Array.from({ length: BATCH }, () => submitted++);
    const ends = ids.map((id) => new Promise<void>((resolve) => results.set(id, resolve)));
    await Promise.all(ids.map((id) => stream.publish('jobs', JSON.stringify({ id, messages }))));
    await Promise.all(ends);
  }
}

async function work(consumer: Consumer): Promise<void> {
  for await (const job of await consumer.consume({ max_messages: plan.inFlight / 2 })) {
    const { id } = job.json();
    void stream.publish('results', JSON.stringify({ id, status: 'success', text })).then(() => job.ack());
  }
}

async function readResults(consumer: Consumer): Promise<void> {
  for await (const result of await consumer.consume({ max_messages: plan.inFlight })) {
    const { id } = result.json();
    results.get(id)?.();
    results.delete(id);
  }
}
