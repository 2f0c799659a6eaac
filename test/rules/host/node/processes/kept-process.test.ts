import { beforeEach, describe, expect, it } from 'vitest';
import { KeptProcess, type StartedProcess } from '../../../../../src/host/node/processes/kept-process.ts';
import type { FromChild, ToChild } from '../../../../../src/host/node/processes/messages.ts';
import { EXIT, UserError } from '../../../../../src/process/index.ts';
import { settled, VirtualClock } from '../../../../support/virtual-clock.ts';

/** A process that the test plays. */
interface Played extends StartedProcess {
  told: ToChild[];
  isKilled: boolean;
  says(message: FromChild): void;
  ends(how?: string): void;
}

let clock: VirtualClock;
let started: Played[];
let said: string[];
let failure: Error | null;
let kept: KeptProcess;

beforeEach(() => {
  clock = new VirtualClock();
  started = [];
  said = [];
  failure = null;
  const note = (_fields: object, message: string) => void said.push(message);
  kept = new KeptProcess('gateway-1', {
    start: (heard) => {
      const ended = Promise.withResolvers<string>();
      const played: Played = {
        pid: 100 + started.length,
        told: [],
        isKilled: false,
        tell: (message) => void played.told.push(message),
        kill: () => {
          played.isKilled = true;
          ended.resolve('by SIGKILL');
        },
        ended: ended.promise,
        says: heard,
        ends: (how = 'by SIGKILL') => ended.resolve(how),
      };
      started.push(played);
      return played;
    },
    clock,
    log: { info: note, warn: note },
    failed: (error) => {
      failure = error;
    },
  });
});

/** Starts the first process, and lets it be up. */
async function up(): Promise<void> {
  const start = kept.start();
  started[0]!.says({ type: 'up' });
  await start;
}

/** Lets the newest process end, and returns after how many ms another one was started. */
async function pauseAfterEnd(livedMs: number): Promise<number> {
  await clock.advance(livedMs);
  const count = started.length;
  const endedAt = clock.now();
  started.at(-1)!.ends();
  await clock.advance(0);
  while (started.length === count) await clock.advance(50);
  started.at(-1)!.says({ type: 'up' });
  return clock.now() - endedAt;
}

describe('a process that ends', () => {
  it('is started again at once, and after growing pauses if it ends soon again and again', async () => {
    await up();
    expect(await pauseAfterEnd(60_000)).toBe(0);
    expect(await pauseAfterEnd(100)).toBe(0);
    expect(await pauseAfterEnd(100)).toBe(250);
    expect(await pauseAfterEnd(100)).toBe(500);
    for (let times = 0; times < 10; times++) await pauseAfterEnd(100);
    expect(await pauseAfterEnd(100)).toBe(10_000);
    expect(await pauseAfterEnd(60_000), 'it was steady again').toBe(0);
    expect(said).toContain('gateway-1 (process 100) ended by SIGKILL; it is started again at once');
    expect(said).toContain('gateway-1 (process 102) ended by SIGKILL; it is started again in 0.25 s');
  });

  it('fails the start if it was never up', async () => {
    const start = kept.start();
    started[0]!.ends('with code 1');
    await expect(start).rejects.toThrow('gateway-1 ended with code 1 before it was up');
    await clock.advance(60_000);
    expect(started.length).toBe(1);
  });
});

describe('a process that cannot start', () => {
  it('fails the first start with its message and exit code', async () => {
    const start = kept.start();
    started[0]!.says({ type: 'refused', message: 'The state is damaged.', exitCode: EXIT.badState });
    const error = await start.catch((thrown) => thrown);
    expect(error).toBeInstanceOf(UserError);
    expect(error).toMatchObject({ message: 'The state is damaged.', exitCode: EXIT.badState });
  });

  it('ends the whole at a later start, if somebody has to mend something', async () => {
    await up();
    started[0]!.ends();
    await clock.advance(0);
    started[1]!.says({ type: 'refused', message: 'The state is damaged.', exitCode: EXIT.badState });
    started[1]!.ends('with code 11');
    await clock.advance(60_000);
    expect(failure).toMatchObject({ message: 'The state is damaged.', exitCode: EXIT.badState });
    expect(started.length).toBe(2);
  });

  it('is tried again at a later start, if its port is taken or the cause is unknown', async () => {
    await up();
    started[0]!.ends();
    await clock.advance(0);
    started[1]!.says({ type: 'refused', message: 'The port is in use.', exitCode: EXIT.portInUse });
    started[1]!.ends('with code 7');
    await clock.advance(1000);
    started[2]!.says({ type: 'refused', message: 'No memory.', exitCode: null });
    started[2]!.ends('with code 1');
    await clock.advance(1000);
    expect(started.length).toBe(4);
    expect(failure).toBeNull();
  });
});

it('ends the whole when a process says that it can keep nothing any more', async () => {
  await up();
  started[0]!.says({ type: 'failed', message: 'the state folder was removed', exitCode: null });
  started[0]!.ends('with code 1');
  await clock.advance(60_000);
  expect(failure?.message).toBe('the state folder was removed');
  expect(started.length).toBe(1);
});

it('starts another process as soon as one drains, and none when that one has ended', async () => {
  await up();
  started[0]!.says({ type: 'drains' });
  expect(started.length).toBe(2);
  started[1]!.says({ type: 'up' });
  await clock.advance(300_000);
  started[0]!.ends('with code 0');
  await clock.advance(60_000);
  expect(started.length).toBe(2);
  expect(kept.state).toBe('up');
});

describe('a stop', () => {
  it('tells all its processes, one that drains too, and kills those that do not end', async () => {
    await up();
    started[0]!.says({ type: 'drains' });
    started[1]!.says({ type: 'up' });
    const stopped = kept.stop(2000);
    expect(started.map(({ told }) => told)).toEqual([[{ type: 'stop' }], [{ type: 'stop' }]]);
    started[1]!.ends('with code 0');
    await clock.advance(3000);
    expect(started[0]!.isKilled).toBe(false);
    await clock.advance(1000);
    await stopped;
    expect(started.map(({ isKilled }) => isKilled)).toEqual([true, false]);
    await clock.advance(60_000);
    expect(started.length).toBe(2);
  });

  it('starts nothing that waited for its pause', async () => {
    await up();
    for (let times = 0; times < 3; times++) await pauseAfterEnd(10);
    const count = started.length;
    started.at(-1)!.ends();
    await settled();
    expect(kept.state).toBe('waiting');
    await kept.stop(2000);
    await clock.advance(60_000);
    expect(started.length).toBe(count);
  });
});
