import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { stripVTControlCharacters } from 'node:util';
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import { until } from '../support/poll.ts';
import {
  CLI,
  chatJob,
  cleanEnvironment,
  type QueueProcess,
  readyWorker,
  settled,
  startQueue,
  submit,
  tearDown,
} from '../support/road.ts';

/** `worker-vllm top` with keys, in a terminal of 160 columns. */
let queue: QueueProcess;
let terminal: ChildProcess;
let output = '';

beforeAll(async () => {
  queue = await startQueue();
  await readyWorker(queue.url, 'w-1');
  await submit(queue.url, chatJob(5, { id: 'first-job' }));
  await settled(queue.url, 'first-job');
});
afterEach(() => void terminal.kill('SIGTERM'));
afterAll(tearDown);

function start(): void {
  output = '';
  const command = `stty cols 160 rows 30; exec ${process.execPath} ${CLI} top --url ${queue.url}`;
  terminal = spawn('script', ['-qefc', command, '/dev/null'], {
    env: cleanEnvironment(),
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  terminal.stdout!.setEncoding('utf8').on('data', (text: string) => (output += text));
}

/** What was drawn last. */
function screen(): string {
  return stripVTControlCharacters(output.split('\x1b[H').at(-1) ?? '').replaceAll('\r', '');
}
const shows = (what: RegExp, name: string) => until(() => what.test(screen()), name);
const press = (keys: string) => void terminal.stdin!.write(keys);

it('goes from the fleet to the course of a request by keys, filters, sorts, and quits', async () => {
  start();
  await shows(/idle +w-1.*q quit · \? keys · r requests · s order: trouble · \/ filter/s, 'the fleet');
  press('s');
  await shows(/s order: name/, 'another order');
  press('/');
  press('nobody');
  await shows(/\/nobody▏/, 'a filter is typed');
  await until(() => !screen().includes('w-1 '), 'the worker is hidden');
  press('\x1b');
  await shows(/idle +w-1/, 'the filter is gone');
  press('?');
  await shows(/Enter +in requests: show its course/, 'the keys');
  press('r');
  await shows(/▶ +.*first-job .*succeeded/, 'the requests');
  press('\r');
  await shows(/succeeded {2}first-job.*attempt 1 w-1: settled.*dispatched/s, 'its course');
  press('\x1b');
  await shows(/▶ +.*first-job /, 'the requests again');
  const ended = once(terminal, 'close');
  press('q');
  expect((await ended)[0]).toBe(0);
  // The terminal is as it was.
  expect(output.trimEnd().endsWith('\x1b[?25h\x1b[?1049l')).toBe(true);
});

it('ends by Ctrl-C, which is a key there', async () => {
  start();
  await shows(/idle +w-1/, 'the fleet');
  const ended = once(terminal, 'close');
  press('\x03');
  expect((await ended)[0]).toBe(0);
});
