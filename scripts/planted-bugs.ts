import { spawn } from 'node:child_process';
import { cp, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { InvalidArgumentError } from 'commander';
import { commandLine, wholeFrom } from './command-line.ts';
import type { Bug } from './planted-batch-bugs.ts';
import { WORLDS } from './planted-worlds.ts';

/**
 * Plants one bug after the other in a copy of the sources and shows that the simulation finds it.
 * Ends with 1 when one is not found, or cannot be planted because its line is gone.
 */

const given = commandLine(
  'npm run planted-bugs --',
  'plants one bug after the other in a copy of the sources and shows that a simulation finds it',
)
  .option('--seeds <count>', 'seeds to look for each', wholeFrom(1), 500)
  .option('--only <text>', 'bugs whose name contains this, such as fleet, seam, runpod or sharing', named, '')
  .parse()
  .opts<{ seeds: number; only: string }>();
const root = fileURLToPath(new URL('..', import.meta.url));
const folder = await mkdtemp(join(tmpdir(), 'planted-bugs-'));
try {
  const simulations = ['', 'fleet-', 'runpod-', 'sharing-'].map((of) => `test/${of}simulation`);
  const parts = [...simulations, 'test/support', ...WORLDS.map(({ script }) => script)];
  const shared = ['scripts/seeds.ts', 'scripts/command-line.ts'];
  for (const part of ['src', ...parts, ...shared, 'package.json']) {
    await cp(join(root, part), join(folder, part), { recursive: true });
  }
  await symlink(join(root, 'node_modules'), join(folder, 'node_modules'), 'dir');
  const rows: string[][] = [];
  for (const { script, bugs } of WORLDS) {
    for (const bug of bugs.filter(({ name }) => name.includes(given.only))) {
      const row = await plant(bug, script);
      console.log(row.join(' | '));
      rows.push(row);
    }
  }
  console.log(`\n| bug | found | seeds | the promise that was broken |\n| --- | --- | --- | --- |`);
  for (const row of rows) console.log(`| ${row.join(' | ')} |`);
  process.exitCode = rows.every(([, found]) => found === 'yes') ? 0 : 1;
} finally {
  await rm(folder, { recursive: true, force: true });
}

function named(text: string): string {
  if (!WORLDS.some(({ bugs }) => bugs.some(({ name }) => name.includes(text))))
    throw new InvalidArgumentError('No bug has this in its name.');
  return text;
}

/** One row of the table; the copy is as before when it is done. */
async function plant(bug: Bug, script: string): Promise<string[]> {
  const path = join(folder, bug.file);
  const text = await readFile(path, 'utf8');
  const places = text.split(bug.line).length - 1;
  if (places !== 1) return [bug.name, 'NOT PLANTED', '', `its line is ${places} times in ${bug.file}`];
  await writeFile(
    path,
    text.replace(bug.line, () => bug.becomes),
  );
  try {
    const { seeds, promise } = await simulate(bug, script);
    return [bug.name, promise === null ? 'NO' : 'yes', String(seeds), promise ?? ''];
  } finally {
    await writeFile(path, text);
  }
}

async function simulate(bug: Bug, script: string): Promise<{ seeds: number; promise: string | null }> {
  const seeds = ['--seeds', String(given.seeds), '--first-seed', String(bug.first_seed ?? 1)];
  const child = spawn(process.execPath, [script, '--json', ...seeds], {
    cwd: folder,
    // Half of what a start costs is to compile sources of which one differs.
    env: { ...process.env, NODE_COMPILE_CACHE: join(folder, 'compiled') },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let printed = '';
  for await (const piece of child.stdout) printed += String(piece);
  return JSON.parse(printed.trim().split('\n').at(-1) ?? '');
}
