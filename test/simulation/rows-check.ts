import type { Queue } from '../../src/queue/queue.ts';
import { viewOf } from '../../src/queue/store/job-view.ts';
import { findJob } from '../../src/queue/store/jobs-table.ts';
import type { Sql } from '../../src/queue/store/ports.ts';

/** What a queue takes a job for that its table tells otherwise; null: it knows its rows. */
export function misknownRow(queue: Queue, disk: Sql, jobIds: Iterable<string>): string | null {
  for (const id of jobIds) {
    const row = findJob(disk, id);
    const [known, stored] = [queue.read('get', id, null), row && viewOf(disk, row)].map((view) =>
      JSON.stringify(view, null, 1),
    );
    if (known !== stored) return `${id} is known as ${known} and stored as ${stored}`;
  }
  return null;
}
