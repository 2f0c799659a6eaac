import { expect, test } from 'vitest';
import { bounds, QUEUE_HOME } from '../../../../src/protocol/index.ts';
import { World } from '../../../support/answer-processes.ts';
import { Random } from '../../../support/random.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';

const MIB = 1024 * 1024;
const SEEDS = Number(process.env.SEEDS ?? 25);
const FIRST = Number(process.env.FIRST_SEED ?? 1);

/** Plays a seed: answers over three homes while sockets and links break. @param kills whether a home is killed too */
async function play(seed: number, kills: boolean): Promise<World> {
  const random = new Random(seed, 'events');
  const clock = new VirtualClock();
  const world = new World(clock, new Random(seed, 'world'), { homes: 3, workers: 3 });
  await clock.advance(500);
  const events = [
    () => random.pick(world.workers).wire?.break(),
    () => random.pick(world.alive).port.closeAll(1012, 'dial again'),
    () => world.breakLink(),
    () => world.breakLink(),
  ];
  const killAt = kills ? random.int(5, 30) : -1;
  const beginAt = killAt + random.int(1, 25);
  for (let second = 0; second < 40; second++) {
    for (let n = random.below(3); n > 0; n--)
      world.begins(
        random.pick(world.workers),
        random.chance(0.1) ? random.int(MIB, 3 * MIB) : random.int(1, 50_000),
      );
    if (random.chance(0.5)) random.pick(events)();
    if (second === killAt) world.kill(random.pick(world.alive));
    if (second === beginAt && kills) {
      const gone = world.processes.find(({ isAlive }) => !isAlive)!;
      world.begin(random.chance(0.5) || gone.home === QUEUE_HOME ? gone.home : 7);
    }
    await clock.advance(random.int(200, 1800));
  }
  // The queue's own process always comes back, under its number.
  if (kills && !world.alive.some(({ home }) => home === QUEUE_HOME)) world.begin(QUEUE_HOME);
  world.isCalm = true;
  await clock.advance(150_000);
  return world;
}

const seeds = Array.from({ length: SEEDS }, (_, index) => FIRST + index);

test.each(seeds)(
  'seed %i: every byte comes once and in order, whichever process has the socket',
  async (seed) => {
    const world = await play(seed, false);
    expect(
      world.told.filter(({ end, fault, received, size }) => end !== 'whole' || fault || received !== size),
    ).toEqual([]);
    expect(world.told.length).toBeGreaterThan(10);
    expectNothingHeld(world);
  },
);

test.each(seeds)(
  'seed %i: a killed home breaks its own streams alone, and its workers forget them',
  async (seed) => {
    const world = await play(seed, true);
    const survived = world.told.filter(({ home }) => home.isAlive);
    expect(
      survived.filter(({ end, fault, received, size }) => end !== 'whole' || fault || received !== size),
    ).toEqual([]);
    expect(world.told.every(({ fault }) => fault === null)).toBe(true);
    expectNothingHeld(world);
  },
);

test('a caller that does not read holds its worker back, and the processes between them keep little', async () => {
  const clock = new VirtualClock();
  const world = new World(clock, new Random(1, 'world'), { homes: 3, workers: 1 });
  await clock.advance(500);
  world.reads = false;
  for (let n = 0; n < 6; n++) world.begins(world.workers[0]!, 20 * MIB);
  await clock.advance(20_000);
  const most = bounds.ANSWER_WINDOW_BYTES + (20 * MIB) / 8;
  expect(world.mostLinkBytes).toBeGreaterThan(0);
  expect(world.mostLinkBytes).toBeLessThan(world.told.length * most);
  expect(world.told.every(({ received }) => received < 2 * most)).toBe(true);
  world.reads = true;
  world.resume();
  await clock.advance(60_000);
  expect(world.told.map(({ end, fault }) => [end, fault])).toEqual(world.told.map(() => ['whole', null]));
  expectNothingHeld(world);
});

function expectNothingHeld(world: World): void {
  expect(world.workers.map(({ answers }) => answers.isIdle)).toEqual(world.workers.map(() => true));
  expect(world.alive.map(({ port }) => port.streams)).toEqual(world.alive.map(() => 0));
  expect(world.alive.map(({ held }) => held.figuresOf('q').streams)).toEqual(world.alive.map(() => 0));
}
