import { fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, expect, test } from 'vitest';
import { bundle, supervisorOver } from '../support/bundles.ts';
import { until } from '../support/poll.ts';
import { stateFolder, tearDown } from '../support/road.ts';

/** Nobody is there: a worker keeps dialling and asking. */
const NOWHERE = {
  CASOLA_WS_URL: 'ws://127.0.0.1:9',
  CASOLA_CONFIG_ID: 'cfg',
  ENGINE_URL: 'http://127.0.0.1:9',
  WORKER_SPOOL_DIR: stateFolder(),
};

const kills: (() => void)[] = [];
afterEach(() => {
  for (const kill of kills.splice(0)) kill();
});
afterAll(tearDown);

/** A program with an IPC channel to the test. */
function start(program: string, env: Record<string, string> = {}) {
  const child = fork(program, { env: { ...process.env, ...NOWHERE, ...env }, silent: true, execArgv: [] });
  const exitCode = new Promise<number | null>((done) => child.once('exit', (code) => done(code)));
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream?.on('data', (text) => (output += text));
  kills.push(() => child.kill('SIGKILL'));
  return {
    child,
    exitCode,
    prints: (text: string) => until(() => output.includes(text), `it prints "${text}"`),
  };
}

test('a worker ignores what it does not know of its supervisor, says so, and ends with its channel', async () => {
  const { child, exitCode, prints } = start(bundle('worker'));
  await prints('worker starting');
  child.send({ case: 'surprise' });
  await prints('a message of the supervisor cannot be read; ignored');
  child.disconnect();
  expect(await exitCode).toBe(0);
});

test('a supervisor ignores what it does not know of its worker, says so, and ends in order', async () => {
  const env = { STAND_IN_WORKER: 'babbling' };
  const worker = fileURLToPath(new URL('../support/stand-ins/worker.ts', import.meta.url));
  const { child, exitCode, prints } = start(supervisorOver(worker, stateFolder()), env);
  await prints('a message of the worker cannot be read; ignored');
  child.kill('SIGTERM');
  await prints('worker drained');
  expect(await exitCode).toBe(0);
});
