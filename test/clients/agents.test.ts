import { copyFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type ClientsInstall, ensureClients } from '../../scripts/clients/setup.ts';
import { ranScript } from '../support/client-scripts.ts';
import { type QueueProcess, readyWorker, startQueue, stateFolder, tearDown } from '../support/road.ts';

/** OpenAI's Agents SDK, unmodified: a model that calls a tool, by the answers of a script. */
const call = (city: string) => ({ calls: [{ name: 'get_weather', arguments: { city } }] });
const SCRIPT = [
  { reasoning: 'I have to ask.', ...call('Oslo') },
  { text: 'Oslo has sun.' },
  call('Bergen'),
  { text: 'Bergen has sun too.' },
];
const CALL_AND_OUTPUT = ['function_call', 'function_call_output'];

let clients: ClientsInstall;
let queue: QueueProcess;

beforeAll(async () => {
  clients = await ensureClients();
  queue = await startQueue();
  const script = join(stateFolder(), 'script.json');
  writeFileSync(script, JSON.stringify(SCRIPT));
  await readyWorker(queue.url, 'w', { engineArgs: `--inter-token-latency-ms 2 --script ${script}` });
});
afterAll(tearDown);

/** What both forms of the SDK see. */
const SEEN = {
  whole: 'Oslo has sun.',
  asked: ['Oslo'],
  chain: ['Oslo has sun.', 'Bergen has sun too.'],
  conversation: 'Bergen has sun too.',
  items: ['message', 'reasoning', ...CALL_AND_OUTPUT, 'message', 'message', ...CALL_AND_OUTPUT, 'message'],
};

describe('OpenAI’s Agents SDK', () => {
  it('for Python calls a tool, streamed and whole, along a chain and in a conversation', async () => {
    expect(await ranScript(clients.python, 'agents_client.py', queue.url, 'tiny')).toEqual({
      ...SEEN,
      streamed: ['Oslo has sun.', true],
    });
  });

  it('for Node calls a tool, streamed and whole, along a chain and in a conversation', async () => {
    // Node looks for packages beside the file that imports them.
    const copy = join(clients.node, 'agents_client.mjs');
    copyFileSync(join(import.meta.dirname, 'agents_client.mjs'), copy);
    expect(await ranScript(process.execPath, copy, queue.url, 'tiny')).toEqual({
      ...SEEN,
      streamed: ['Oslo has sun.', 'Oslo has sun.'],
    });
  });
});
