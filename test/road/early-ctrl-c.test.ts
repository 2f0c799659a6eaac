import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { until } from '../support/poll.ts';
import { cli, stateFolder, tearDown } from '../support/road.ts';

afterAll(tearDown);

it('a Ctrl-C while the queue starts ends it in order', async () => {
  const stateDir = stateFolder();
  const queue = cli(['queue', '--port', '0', '--state', stateDir]);
  await until(() => existsSync(join(stateDir, 'data')), 'it makes its folders', { everyMs: 1 });
  queue.kill('SIGINT');
  expect(await queue.exited).toEqual({ code: 0, signal: null });
  expect(queue.output()).not.toMatch(/Error/);
});
