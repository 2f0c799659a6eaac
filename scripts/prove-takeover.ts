import { spawn } from 'node:child_process';
import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { InvalidArgumentError } from 'commander';
import { EXIT } from '../src/process/exit-codes.ts';
import { noClockShim } from '../test/support/clock-shim.ts';
import { noPowerLoss } from '../test/support/power-loss.ts';
import { commandLine, wholeFrom } from './command-line.ts';
import { ensureJournalServers } from './journal-servers/setup.ts';
import { figuresOf } from './prove-takeover/figures.ts';
import { FAULT_NAMES, faultsOf } from './prove-takeover/nemesis.ts';
import { makeNetwork, on, removeNetwork } from './prove-takeover/network.ts';
import { type Figures, Run } from './prove-takeover/run.ts';

/**
 * Owner and follower of a journal in PostgreSQL, gateways and workers on machines of their own, which are network
 * namespaces; clients that note all that they hear; faults; and a check of what was promised. Ends with 1 if a promise
 * was broken.
 */

const given = commandLine(
  'node scripts/prove-takeover.ts',
  'proves that a queue with a journal loses nothing while its owner is killed, stopped, cut off or replaced. ' +
    'It needs root on Linux, iproute2, iptables and a C compiler; only one runs at a time',
)
  .option('--seeds <count>', 'runs, one after another', wholeFrom(1), 1)
  .option('--first <seed>', 'the seed of the first run, which chooses its faults', wholeFrom(0), 1)
  .option('--minutes <count>', 'minutes of faults in each run', wholeFrom(1), 10)
  .option(
    '--only <names>',
    `these faults alone, or all that begin with these words, such as kill,stop,clock-owner; all: ${FAULT_NAMES.join(', ')}`,
    readFaults,
  )
  .option(
    '--folder <path>',
    'where the logs go: a folder a seed, with the operation log, the final state and the output of every process',
    '.worker-vllm/prove-takeover',
  )
  .parse()
  .opts<{ seeds: number; first: number; minutes: number; only?: string[]; folder: string }>();

/** Set in the process that runs on the machine of the clients. */
const INSIDE = 'PROVE_TAKEOVER_INSIDE';

process.exit(process.env[INSIDE] ? await runAll() : await runInside());

/** Makes the machines, runs this program again on that of the clients, and removes all of them whatever happened. */
async function runInside(): Promise<number> {
  const problem =
    noClockShim ?? noPowerLoss ?? (process.getuid?.() === 0 ? null : 'only root makes machines');
  if (problem !== null) {
    console.error(`This cannot run here: ${problem}.`);
    return EXIT.configuration;
  }
  if (!(await isAlone())) {
    console.error('Another run is under way on this machine: wait until it has ended.');
    return EXIT.configuration;
  }
  console.log('installing PostgreSQL, if it is not there');
  await ensureJournalServers();
  makeNetwork();
  const [command = '', ...args] = [...on('clients'), process.execPath, ...process.argv.slice(1)];
  const temporary = mkdtempSync(join(tmpdir(), 'prove-takeover-'));
  // PostgreSQL runs as another user, and has its data there too.
  chmodSync(temporary, 0o755);
  const env = { ...process.env, [INSIDE]: 'yes', TMPDIR: temporary };
  const child = spawn(command, args, { stdio: 'inherit', env });
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
    process.on(signal, () => child.kill('SIGTERM'));
  const code = await new Promise<number>((ended) => child.once('exit', (status) => ended(status ?? 130)));
  removeNetwork();
  rmSync(temporary, { recursive: true, force: true });
  return code;
}

/** Holds a name of the machine for as long as this process lives. */
function isAlone(): Promise<boolean> {
  return new Promise((answer) => {
    const server = createServer().unref();
    server.once('error', () => answer(false));
    server.listen({ path: '\0prove-takeover' }, () => answer(true));
  });
}

async function runAll(): Promise<number> {
  const figures: Figures[] = [];
  let broken = 0;
  for (let seed = given.first; seed < given.first + given.seeds; seed += 1) {
    console.log(`\nseed ${seed}, ${given.minutes} minutes`);
    const folder = resolve(given.folder, String(seed));
    const report = await Run.run({
      seed,
      minutes: given.minutes,
      faults: given.only ?? FAULT_NAMES,
      folder,
      say: (line) => console.log(line),
    });
    figures.push(report.figures);
    for (const [promise, found] of Object.entries(report.verdict)) {
      if (found.length === 0) continue;
      broken += 1;
      console.log(`${promise}: ${found.length}`);
      for (const line of found.slice(0, 10)) console.log(`  ${line}`);
    }
    console.log(`logs in ${folder}`);
  }
  console.log(`\n${figuresOf(figures)}\n`);
  console.log(broken === 0 ? 'Every promise was kept.' : `Promises were broken: ${broken}.`);
  return broken === 0 ? EXIT.ok : EXIT.unexpected;
}

function readFaults(text: string): string[] {
  const names = text.split(',');
  const unknown = names.find((name) => faultsOf([name]).length === 0);
  if (unknown !== undefined) throw new InvalidArgumentError(`There is no fault "${unknown}".`);
  return faultsOf(names);
}
