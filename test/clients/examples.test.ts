import { afterAll, beforeAll, expect, it } from 'vitest';
import type { ClientsInstall } from '../../scripts/clients/setup.ts';
import {
  EXPECTED,
  EXPECTED_OF_AN_ENGINE,
  examples,
  installExamples,
  runExample,
} from '../support/examples.ts';
import { type QueueProcess, readyWorker, startQueue, tearDown } from '../support/road.ts';

/** Every file of examples/ over the simulator. */
let clients: ClientsInstall;
let queue: QueueProcess;

beforeAll(async () => {
  clients = await installExamples();
  queue = await startQueue();
  await readyWorker(queue.url, 'w');
});
afterAll(tearDown);

it('runs every example there is', () => {
  const run = [...Object.keys(EXPECTED), ...Object.keys(EXPECTED_OF_AN_ENGINE)];
  expect(examples().toSorted()).toEqual(run.toSorted());
});

it.each(Object.entries(EXPECTED))('runs %s', async (name, expected) => {
  await runExample(clients, name, queue.url, expected);
});
