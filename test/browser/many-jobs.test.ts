import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterAll, expect, it } from 'vitest';
import { until } from '../support/poll.ts';
import { chatJob, startQueue, submit, tearDown } from '../support/road.ts';
import { openPage } from './page.ts';

/** Many jobs: only what is in view is in the document. */

afterAll(tearDown);

/** Nodes that a page may have whatever it shows. */
const MOST_NODES = 3000;

const NODES = `document.querySelectorAll('*').length`;

it('shows 100,000 jobs page by page, and finds one of them', async () => {
  const queue = await startQueue();
  await submit(queue.url, { ...chatJob(1, { id: 'template' }), config_id: 'nobody' });
  await queue.process.stop();
  const folder = await until(() => databaseOf(queue.stateDir), 'the database of the queue');
  const database = new DatabaseSync(folder);
  database.exec(`
    WITH RECURSIVE n (n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM n WHERE n < 100000)
    INSERT INTO jobs (id, job_type, config_id, state, priority, max_attempts, payload, created_at, settled_at, worker_id)
      SELECT printf('job-%06d', n), 'chat_completion', 'cfg', 'succeeded', 0, 3, '{}', 1700000000000 + n, 1700000001000 + n,
        iif(n = 99000, 'rare', 'usual') FROM n`);
  database.close();
  await startQueue({ port: queue.port, stateDir: queue.stateDir });
  const { page, close } = await openPage();
  await page.goto(`${queue.url}/jobs`);
  await page.getByRole('row', { name: /job-100000/ }).waitFor();
  for (let pages = 0; pages < 4; pages += 1) {
    await page.getByRole('button', { name: /Show older ones/ }).click();
    await page
      .getByRole('button', { name: new RegExp(`${(600 + 500 * pages).toLocaleString('en-US')} shown`) })
      .waitFor();
  }
  expect(await page.evaluate(NODES)).toBeLessThan(MOST_NODES);
  await page.goto(`${queue.url}/jobs?id=job-0500`);
  await page.getByRole('row', { name: /job-050000/ }).waitFor();

  // In the order of their ids what was read stays when a new one comes, wherever it belongs.
  await page.goto(`${queue.url}/jobs?id=job-05`);
  await page.getByRole('button', { name: /Show older ones/ }).click();
  await page.getByRole('button', { name: '600 shown' }).waitFor();
  await page.evaluate('scrollTo(0, 1000)');
  await submit(queue.url, { ...chatJob(1, { id: 'job-05-new' }), config_id: 'nobody' });
  await page.getByRole('button', { name: '1 new' }).waitFor();
  await page.getByRole('button', { name: '600 shown' }).waitFor();

  await page.goto(`${queue.url}/jobs?worker_id=rare`);
  await page.getByRole('row', { name: /job-099000/ }).waitFor();
  await close();
}, 240_000);

/** The queue's own, among those of its objects. */
function databaseOf(stateDir: string): string | undefined {
  const files = readdirSync(stateDir, { recursive: true }) as string[];
  return files
    .filter((name) => name.endsWith('.sqlite'))
    .map((name) => join(stateDir, name))
    .find((path) => {
      const database = new DatabaseSync(path);
      try {
        return database.prepare(`SELECT 1 FROM sqlite_master WHERE name = 'jobs'`).get() !== undefined;
      } finally {
        database.close();
      }
    });
}
