import { afterAll, beforeAll, expect, it } from 'vitest';
import { type ClientsInstall, ensureClients } from '../../scripts/clients/setup.ts';
import { ranScript } from '../support/client-scripts.ts';
import { roadTo } from '../support/odd-engine.ts';
import { tearDown } from '../support/road.ts';
import { silentEngine } from '../support/silent-engine.ts';

/** OpenAI's client for Python reads an engine that numbers its events and is silent between them. */
const engine = silentEngine({ ids: true, silentMs: 3500 });
let clients: ClientsInstall;
let url: string;

beforeAll(async () => {
  clients = await ensureClients();
  url = await roadTo(engine);
});
afterAll(async () => {
  await tearDown();
  engine.close();
});

it('the comments of a silent stream are no events for it, behind an event with an id either', async () => {
  expect(await ranScript(clients.python, 'silent_stream.py', url)).toEqual({ text: 'one two three' });
});
