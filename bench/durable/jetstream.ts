import { createRequire } from 'node:module';
import { PEERS } from './peer-server.ts';
import { type DurablePlan, keepInFlight, payloadOf, resultOf, runProgram } from './plan.ts';

/**
 * JetStream: jobs in a work queue, results in a stream of their own, both on disk before they are acknowledged. A job
 * is acknowledged after its result is.
 */

// Not a dependency of the project: `node bench/setup.ts` puts it beside the bench.
const load = createRequire(`${PEERS}/`);
const { connect } = load('@nats-io/transport-node');
const { jetstream, jetstreamManager } = load('@nats-io/jetstream');

interface Message {
  json(): { id: number };
  ack(): void;
}
type Consumer = { consume(options: object): Promise<AsyncIterable<Message>> };

await runProgram({
  async work(plan) {
    const stream = jetstream(await prepare(plan));
    const result = resultOf(plan);
    void run(await stream.consumers.get('jobs', 'workers'));

    async function run(consumer: Consumer): Promise<void> {
      for await (const job of await consumer.consume({ max_messages: plan.slots })) {
        const text = JSON.stringify({ id: job.json().id, ...result });
        void stream.publish('results', text).then(() => job.ack());
      }
    }
  },
  async connect(plan) {
    const stream = jetstream(await prepare(plan));
    const waiting = new Map<number, () => void>();
    // Its own results only: the stream keeps those of the rounds before.
    const results = await stream.consumers.get('results', { deliver_policy: 'new' });
    void read(await results.consume({ max_messages: plan.inFlight }));
    const payload = payloadOf(plan);
    return () =>
      keepInFlight(plan, async (id) => {
        const end = new Promise<void>((resolve) => waiting.set(id, resolve));
        await stream.publish('jobs', JSON.stringify({ id, ...payload }));
        await end;
      });

    async function read(messages: AsyncIterable<Message>): Promise<void> {
      for await (const message of messages) {
        const { id } = message.json();
        waiting.get(id)?.();
        waiting.delete(id);
      }
    }
  },
});

/** Every process makes the streams, which changes nothing where they are there. */
async function prepare({ url }: DurablePlan): Promise<unknown> {
  const connection = await connect({ servers: url });
  const manager = await jetstreamManager(connection);
  await manager.streams.add({ name: 'jobs', subjects: ['jobs'], storage: 'file', retention: 'workqueue' });
  await manager.streams.add({ name: 'results', subjects: ['results'], storage: 'file' });
  await manager.consumers.add('jobs', { durable_name: 'workers', ack_policy: 'explicit' });
  return connection;
}
