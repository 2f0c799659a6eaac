import { hostname } from 'node:os';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { EXIT } from '../../src/process/index.ts';
import {
  chatJob,
  type QueueProcess,
  readyWorker,
  settled,
  startQueue,
  startWorker,
  stateFolder,
  submit,
  tearDown,
} from '../support/road.ts';

/** Workers without an id of their own, on machines that were given the same host name. */
let queue: QueueProcess;
beforeAll(async () => {
  queue = await startQueue();
});
afterAll(tearDown);

/** What is kept on one machine. */
const machine = () => ({ env: { CASOLA_INSTANCE_ID: '', XDG_STATE_HOME: stateFolder() } });

it('the second ends and says why, the first serves on, and takes over from itself when it starts again', async () => {
  const one = machine();
  const first = await readyWorker(queue.url, hostname(), one);
  const second = await startWorker(queue.url, hostname(), machine());
  expect((await second.process.exited).code).toBe(EXIT.deniedByQueue);
  expect(second.process.output()).toContain('CASOLA_INSTANCE_ID');
  await submit(queue.url, { ...chatJob(3), id: 'still-served' });
  expect(await settled(queue.url, 'still-served')).toMatchObject({ state: 'succeeded' });

  first.process.kill('SIGKILL');
  await first.process.exited;
  const again = await startWorker(queue.url, hostname(), one);
  await submit(queue.url, { ...chatJob(3), id: 'served-again' });
  expect(await settled(queue.url, 'served-again')).toMatchObject({ state: 'succeeded' });
  expect(again.process.output()).not.toContain('CASOLA_INSTANCE_ID');
});
