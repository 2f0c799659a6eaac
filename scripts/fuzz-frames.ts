import { Option } from 'commander';
import { Random } from '../test/support/random.ts';
import { commandLine, wholeFrom } from './command-line.ts';
import { TARGETS, type Target } from './fuzz/targets.ts';

/**
 * Sends frames that no honest peer would send to each place where frames come in: the queue's control socket, the
 * worker's control and answer sockets, the relay's answer socket. None may throw, and what a worker sends
 * may not touch another worker's job.
 */
const names = Object.keys(TARGETS);
const { frames, seed, only } = commandLine(
  'node scripts/fuzz-frames.ts',
  'sends frames that no honest peer would send to every peer, and sees that they do no harm',
)
  .option('--frames <count>', 'frames, over all peers', wholeFrom(1), 100_000)
  .option('--seed <number>', 'chooses the frames', wholeFrom(0), Date.now() % 1_000_000)
  .addOption(new Option('--only <peer>', 'one of the peers').choices(names))
  .parse()
  .opts<{ frames: number; seed: number; only?: string }>();
const share = Math.ceil(frames / (only ? 1 : names.length));
/** A target is built anew after this many frames, so that what failed is close to a clean state. */
const ROUND = 2000;

async function fuzz(name: string, build: () => Target | Promise<Target>): Promise<boolean> {
  const started = performance.now();
  for (let done = 0; done < share; done += ROUND) {
    // Every round can be played again alone, since its seed is printed.
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
      console.error(
        `Again: node scripts/fuzz-frames.ts --only ${name} --seed ${roundSeed} --frames ${frame + 1}`,
      );
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
  if (!only || only === name) ok = (await fuzz(name, build)) && ok;
}
process.exitCode = ok ? 0 : 1;
