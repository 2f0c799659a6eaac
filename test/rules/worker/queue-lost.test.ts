import { describe, expect, it } from 'vitest';
import { EXIT } from '../../../src/process/index.ts';
import { terminateOwnMachine } from '../../../src/worker/machine.ts';
import { QueueWatch } from '../../../src/worker/queue-access.ts';
import { letPass } from '../../support/driver-calls.ts';
import { FakeProvider } from '../../support/fakes/fake-provider.ts';
import { FakeRunpod } from '../../support/fakes/fake-runpod.ts';
import { FakeVast } from '../../support/fakes/fake-vast.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';
import { WorkerBench } from '../../support/worker-fakes.ts';

const LIMIT_SECONDS = 900;
/** Ids of FakeVast are numbers from here. */
const FIRST_AT_VAST = '7000001';

function bench() {
  const w = new WorkerBench();
  const watch = new QueueWatch(w.clock, w.worker, LIMIT_SECONDS);
  w.worker.start();
  watch.start();
  return w;
}

describe('a worker without its queue', () => {
  it('ends with a code of its own after the limit, and not before', async () => {
    const w = bench();
    await w.clock.advance((LIMIT_SECONDS - 10) * 1000);
    expect(w.exitCode).toBeNull();
    await w.clock.advance(20_000);
    expect(w.exitCode).toBe(EXIT.queueLost);
  });

  it('waits as long as it takes while a connection is open, also while its engine still loads', async () => {
    const w = bench();
    w.queue.open();
    for (let seconds = 0; seconds < 4 * LIMIT_SECONDS; seconds += 10) {
      w.queue.pong();
      await w.clock.advance(10_000);
    }
    expect(w.exitCode).toBeNull();
    expect(w.queue.frames).toEqual([]);
  });

  it('counts anew from each connection', async () => {
    const w = bench();
    for (let times = 0; times < 3; times++) {
      await w.clock.advance((LIMIT_SECONDS - 100) * 1000);
      // A dial that nobody answers is given up; the next one is.
      while (w.queue.closedBy) await w.clock.advance(1000);
      w.queue.open();
      await w.clock.advance(6000);
      w.queue.close(1006);
    }
    expect(w.exitCode).toBeNull();
    await w.clock.advance((LIMIT_SECONDS + 10) * 1000);
    expect(w.exitCode).toBe(EXIT.queueLost);
  });

  it('does not count the time in which its machine stood still', async () => {
    const clock = new VirtualClock();
    let jumpedMs = 0;
    const lost: number[] = [];
    const jumping = {
      now: () => clock.now() + jumpedMs,
      setTimeout: clock.setTimeout.bind(clock),
      clearTimeout: clock.clearTimeout.bind(clock),
      setImmediate: clock.setImmediate.bind(clock),
    };
    const watched = { hasQueue: false, queueLost: (seconds: number) => void lost.push(seconds) };
    new QueueWatch(jumping, watched, LIMIT_SECONDS).start();
    await clock.advance(100_000);
    jumpedMs = 8 * 3600_000;
    await clock.advance(100_000);
    expect(lost).toEqual([]);
    await clock.advance(LIMIT_SECONDS * 1000);
    expect(lost).toEqual([LIMIT_SECONDS]);
  });
});

describe('a machine that ends itself', () => {
  const clock = new VirtualClock();
  const log = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };

  function provider() {
    const made = new FakeProvider(clock);
    made.create({ name: 'wv-abc123-small-1', instance_type: 'h100', env: {} });
    made.create({ name: 'wv-abc123-small-2', instance_type: 'h100', env: {} });
    return made;
  }

  it('asks RunPod with the key of its pod, until that has answered', async () => {
    const runpod = provider();
    const { fetch } = new FakeRunpod(runpod, clock, 'key-of-this-pod');
    runpod.accidents.destroy_fails = 2;
    const [own] = runpod.alive;
    const env = { RUNPOD_POD_ID: own!.id, RUNPOD_API_KEY: 'key-of-this-pod' };
    await letPass(clock, terminateOwnMachine(env, { clock, fetch }, log));
    expect(runpod.alive.map(({ name }) => name)).toEqual(['wv-abc123-small-2']);
  });

  it('asks Vast with the key of its instance', async () => {
    const vast = provider();
    const { fetch } = new FakeVast(vast, clock, 'key-of-this-instance');
    const env = { CONTAINER_ID: FIRST_AT_VAST, CONTAINER_API_KEY: 'key-of-this-instance' };
    await letPass(clock, terminateOwnMachine(env, { clock, fetch }, log));
    expect(vast.alive.map(({ name }) => name)).toEqual(['wv-abc123-small-2']);
  });

  it('asks nobody elsewhere, and gives up where its key is refused', async () => {
    const runpod = provider();
    const asked: string[] = [];
    const fake = new FakeRunpod(runpod, clock, 'another key');
    const fetch: typeof fake.fetch = (url, init) => {
      asked.push(url);
      return fake.fetch(url, init);
    };
    await letPass(clock, terminateOwnMachine({ RUNPOD_POD_ID: 'pod' }, { clock, fetch }, log));
    await letPass(clock, terminateOwnMachine({}, { clock, fetch }, log));
    expect(asked).toEqual([]);
    await letPass(
      clock,
      terminateOwnMachine({ RUNPOD_POD_ID: 'pod', RUNPOD_API_KEY: 'k' }, { clock, fetch }, log),
    );
    expect(asked).toHaveLength(1);
    expect(runpod.alive).toHaveLength(2);
  });
});
