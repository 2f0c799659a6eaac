import { expect, it } from 'vitest';
import { eventsOf, RunpodWorld } from '../../support/runpod-world.ts';

/**
 * What is promised in RunPod's endpoint, over many worlds: every job is answered once or given out again until it is;
 * pieces come in order, none twice in an attempt and none after the end; an output is whole.
 * RUNPOD_WORLDS=500 looks at more of them, RUNPOD_WORLD=17 at one.
 */
const one = process.env.RUNPOD_WORLD;
const count = Number(process.env.RUNPOD_WORLDS ?? 30);
const seeds = one === undefined ? Array.from({ length: count }, (_, seed) => seed) : [Number(one)];

it.each(seeds)('world %i keeps what is promised', async (seed) => {
  const world = new RunpodWorld(seed);
  await world.run(20);
  expect(world.platform.problems).toEqual([]);
  for (const job of world.platform.jobs) {
    expect(['done', 'stopped'], `${job.id} is ${job.status} after ${job.gives} gives`).toContain(job.status);
    const whole = eventsOf(job.id, 1 + ((job.id.length + Number(job.id.slice(3))) % 9)).join('');
    // A piece may be missing where the platform did not take it, but none is out of its order.
    let from = 0;
    for (const piece of job.pieces) {
      const at = whole.indexOf(piece, from);
      expect(at, `${job.id}: a piece out of order`).toBeGreaterThanOrEqual(from);
      from = at + piece.length;
    }
    if (job.output !== null) expect(job.output.join(''), job.id).toBe(whole);
    else if (job.status === 'done') expect(job.error, job.id).toEqual(expect.any(String));
  }
});
