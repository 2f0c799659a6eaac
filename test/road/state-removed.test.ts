import { rmSync } from 'node:fs';
import { afterEach, expect, it } from 'vitest';
import { EXIT } from '../../src/process/index.ts';
import { stopAllProcesses } from '../support/processes.ts';
import { startQueue } from '../support/road.ts';

afterEach(stopAllProcesses);

it('a queue whose state folder is removed under it ends, and says why', async () => {
  const { process, url, stateDir } = await startQueue();
  const job = { id: 'a', job_type: 'chat_completion', config_id: 'cfg', payload: { messages: [] } };
  const submitted = await fetch(`${url}/api/jobs`, { method: 'POST', body: JSON.stringify(job) });
  expect(submitted.status).toBe(201);
  rmSync(stateDir, { recursive: true });
  expect((await process.exited).code).toBe(EXIT.unexpected);
  expect(process.output()).toContain(`the state folder ${stateDir} was removed or replaced`);
});
