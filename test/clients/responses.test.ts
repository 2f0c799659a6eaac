import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type ClientsInstall, ensureClients } from '../../scripts/clients/setup.ts';
import { ranScript } from '../support/client-scripts.ts';
import { clientForNode } from '../support/node-responses.ts';
import { responsesSeen } from '../support/responses-seen.ts';
import { type QueueProcess, readyWorker, startQueue, tearDown } from '../support/road.ts';

/** OpenAI's Python client, unmodified, over responses and conversations that the queue keeps. */
let clients: ClientsInstall;
let queue: QueueProcess;

beforeAll(async () => {
  clients = await ensureClients();
  queue = await startQueue();
  await readyWorker(queue.url, 'w', { engineArgs: '--inter-token-latency-ms 5' });
});
afterAll(tearDown);

describe('OpenAI’s Python client', () => {
  // The parts: a chain with its items; a stream; polled, left and taken up again, cancelled; a conversation.
  it.each(Object.entries(responsesSeen('completed')))(
    'uses responses as its documentation says: %s',
    async (part, seen) => {
      expect(await ranScript(clients.python, 'openai_responses.py', queue.url, 'tiny', part)).toEqual(seen);
    },
  );
});

clientForNode(() => queue.url, 'completed');
