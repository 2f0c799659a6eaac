import { parseArgs } from 'node:util';
import { Random } from '../test/support/random.ts';
import { TARGETS, type Target } from './fuzz/targets.ts';

/**
 * Frames that no honest peer would send, at the doors where frames come in: the queue's control socket, the
 * worker's control and answer sockets, the relay's answer socket. None may throw, and what a worker sends
 * may not touch another worker's job.
 * `npm run fuzz -- [--frames N] [--seed S] [--only queue|worker|relay]`; same seed, same frames.
 */
const { values } = parseArgs({
  options: {
    frames: { type: 'string', default: '100000' },
    seed: { type: 'string', default: String(Date.now() % 1_000_000) },
    only: { type: 'string' },
  },
});
const seed = Number(values.seed);
const share = Math.ceil(Number(values.frames) / (values.only ? 1 : 3));
/** A target is built anew after this many frames, so that what failed is close to a clean state. */
const ROUND = 2000;

async function fuzz(name: string, build: () => Target | Promise<Target>): Promise<boolean> {
  const started = performance.now();
  for (let done = 0; done < share; done += ROUND) {
    // Every round can be played again alone: its seed is told.
    const roundSeed = seed + done;
    const random = new Random(roundSeed, name);
    const target = await build();
    let input: string | Uint8Array<ArrayBuffer> = '';
    let frame = 0;
    try {
      for (; frame < Math.min(ROUND, share - done); frame++) {
        input = target.input(random);
        await target.take(input, random);
      }
      await target.check();
    } catch (error) {
      const shown = typeof input === 'string' ? input : Buffer.from(input).toString('hex');
      console.error(`${name}: frame ${frame} of the round with seed ${roundSeed} failed:\n${shown}`);
      console.error((error as Error).stack ?? error);
      console.error(`Again: npm run fuzz -- --only ${name} --seed ${roundSeed} --frames ${frame + 1}`);
      return false;
    }
  }
  const seconds = (performance.now() - started) / 1000;
  console.log(`${name.padEnd(6)} ${share} frames, ${Math.round(share / seconds)} a second, none did harm`);
  return true;
}

console.log(`seed ${seed}`);
let ok = true;
for (const [name, build] of Object.entries(TARGETS)) {
  if (!values.only || values.only === name) ok = (await fuzz(name, build)) && ok;
}
process.exitCode = ok ? 0 : 1;
