import { Relay } from '../../src/relay/relay.ts';
import { QueueHarness } from '../../test/support/queue-harness.ts';
import type { Random } from '../../test/support/random.ts';
import { settled } from '../../test/support/virtual-clock.ts';
import { WorkerBench } from '../../test/support/worker-fakes.ts';
import { bytesFrom, QUEUE_FRAMES, textFrom, WORKER_FRAMES } from './frames.ts';

/** One thing with a door: takes one input, throws when it or its surroundings are harmed. */
export interface Target {
  input(random: Random): string | Uint8Array<ArrayBuffer>;
  take(input: string | Uint8Array<ArrayBuffer>, random: Random): void | Promise<void>;
  /** At the end of a round. */
  check(): void | Promise<void>;
}

export const TARGETS: Record<string, () => Target | Promise<Target>> = {
  queue: () => {
    const queue = new QueueHarness();
    const holder = queue.worker('holder', { capacity: 1 });
    queue.submit({ id: 'held' }, { id: 'elsewhere', config_id: 'other' });
    queue.submit({ id: 'mine', config_id: 'none', max_attempts: 100 });
    const look = () =>
      JSON.stringify([queue.queue.read('get', 'held', null), queue.queue.read('get', 'elsewhere', null)]);
    const before = look();
    let thief = queue.connect();
    return {
      input: (random) => textFrom(random, WORKER_FRAMES),
      take: (input, random) => {
        if (random.chance(0.01)) {
          queue.drop(thief);
          thief = queue.connect();
        }
        // A connection with the same worker's token may take over; that is not tested here.
        if ((input as string).includes('"holder"')) return;
        queue.say(thief, input);
        if (random.chance(0.01)) thief.sent.length = 0;
      },
      check: () => {
        if (look() !== before)
          throw new Error(`another worker's job was changed: ${before} became ${look()}`);
        queue.say(holder, { type: 'job_result', job_id: 'held', fence_token: 1, result: {} });
        if (queue.state('held') !== 'succeeded') throw new Error('the holder cannot settle its job any more');
      },
    };
  },
  worker: async () => {
    const bench = await new WorkerBench({ capacity: 4 }).ready();
    const failed: unknown[] = [];
    const onFailure = (error: unknown) => failed.push(error);
    process.once('unhandledRejection', onFailure);
    return {
      input: (random) => (random.chance(0.7) ? textFrom(random, QUEUE_FRAMES) : bytesFrom(random)),
      take: async (input, random) => {
        if (typeof input === 'string') bench.queue.push(input);
        else bench.relay.pushBytes(input);
        if (random.chance(0.02)) bench.engine.exchanges.at(-1)?.complete();
        if (random.chance(0.05)) await settled();
        if (failed.length > 0) throw failed[0];
      },
      check: async () => {
        await settled();
        process.off('unhandledRejection', onFailure);
        if (failed.length > 0) throw failed[0];
      },
    };
  },
  relay: () => {
    let now = 0;
    const relay = new Relay(() => now, { reconnect_grace_seconds: 10 });
    const socket = () => ({ send: () => {}, close: () => {} });
    let current = socket();
    relay.onSocket(current);
    const open = (id: number, random: Random) =>
      relay.open(id, (opening) => {
        // What the object does with it: a response is made of the head, a header of the reason.
        if (opening.ok) new Response(null, { status: 200, headers: opening.head.headers });
        else JSON.parse(JSON.stringify(opening.reason)).code.toString();
        if (opening.ok)
          relay.attach(id, {
            write: () => random.chance(0.9),
            keepAlive: () => {},
            end: () => {},
            abort: () => {},
          });
      });
    return {
      input: bytesFrom,
      take: (input, random) => {
        if (random.chance(0.1)) open(random.below(8), random);
        relay.onMessage(current, (input as Uint8Array<ArrayBuffer>).slice().buffer);
        if (random.chance(0.05)) {
          now += random.pick([1, 1000, 40_000, 70_000]);
          relay.onTick();
        }
        if (random.chance(0.02)) relay.callerGone(random.below(8));
        if (random.chance(0.02)) {
          current = socket();
          relay.onSocket(current);
        }
      },
      check: () => {},
    };
  },
};
