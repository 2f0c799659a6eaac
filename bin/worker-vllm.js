#!/usr/bin/env node
// The command `worker-vllm`: the bundles in `dist/programs/`, which a checkout builds when its sources have changed.
// Plain JavaScript, since the Node that runs it may be too old for both: then the newer one from the npm
// package "node" takes over, where that is installed.
import { spawn, spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { constants } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

// As "engines" of package.json says: from then on a server may leave an upgrade to its ordinary answer.
const NEEDED = [22, 21];

// npx hands a signal to the shell that it started, and the shell ends without passing it on.
if (process.env.npm_command === 'exec') endWithParent();

const [major, minor] = process.versions.node.split('.').map(Number);
if (major > NEEDED[0] || (major === NEEDED[0] && minor >= NEEDED[1])) {
  await import(await program());
} else {
  runWith(newerNode());
}

async function program() {
  const checked = new URL('../scripts/fingerprint.js', import.meta.url);
  // Only a checkout has what builds the programs.
  if (existsSync(checked) && !(await import(checked.href)).areFresh()) build();
  return new URL('../dist/programs/cli.js', import.meta.url).href;
}

/** In a process of its own, whose memory this one does not keep. */
function build() {
  const builder = fileURLToPath(new URL('../scripts/programs.ts', import.meta.url));
  const { status } = spawnSync(process.execPath, [builder], { stdio: ['ignore', 'inherit', 'inherit'] });
  if (status !== 0) process.exit(status ?? 1);
}

function endWithParent() {
  const parent = process.ppid;
  const timer = setInterval(() => {
    if (process.ppid === parent) return;
    clearInterval(timer);
    process.kill(process.pid, 'SIGTERM');
  }, 500);
  timer.unref();
}

function newerNode() {
  try {
    const manifest = createRequire(import.meta.url).resolve('node/package.json');
    return join(dirname(manifest), 'bin', 'node');
  } catch {
    return tooOld();
  }
}

function tooOld() {
  console.error(
    `worker-vllm needs Node ${NEEDED.join('.')} or later and this is ${process.versions.node}: ` +
      'install a newer Node, or one beside the command with "npm install node@24" ("npm ci" in a checkout).',
  );
  process.exit(2);
}

function runWith(node) {
  const child = spawn(node, [fileURLToPath(import.meta.url), ...process.argv.slice(2)], { stdio: 'inherit' });
  // The terminal gives a Ctrl-C to both; a second one from here would count twice.
  process.on('SIGINT', () => {});
  for (const signal of ['SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal));
  child.on('error', tooOld);
  child.on('exit', (code, signal) => process.exit(code ?? 128 + constants.signals[signal]));
}
