import { isSettled } from '../../protocol/index.ts';
import { maySee, type SettledJobs, type Viewer } from '../rpc.ts';
import type { Core } from '../state/state.ts';
import { resultKey } from '../store/blob-table.ts';
import { viewOf } from '../store/job-view.ts';

/** One answer holds about so many characters; what is left comes with the next. */
const ANSWER_CHARACTERS = 4_000_000;
/** A longer result is read by itself, at the job's own address. */
const RESULT_CHARACTERS = 1_000_000;
/** Characters of such results that one answer may name: the gateway reads them side by side, all in memory. */
const LONG_CHARACTERS = 64_000_000;
/** What one in the bucket counts as: its row does not tell how long it is. */
const BUCKET_CHARACTERS = 8_000_000;

/** Listens for jobs by id. @returns ids under which there is no job, or none to this viewer */
export function listen(core: Core, listener: string, jobIds: readonly string[], viewer: Viewer): string[] {
  return jobIds.filter((id) => {
    const job = core.stored.find(id);
    if (job === null || !maySee(viewer, job.tenant)) return true;
    core.stored.listeners.listen(listener, id, isSettled(job.state));
    return false;
  });
}

export function leaveListener(core: Core, listener: string): void {
  core.stored.listeners.leave(listener);
}

/** What has settled for a listener, answered as soon as there is something, or when `waitMs` are over. */
export function nextSettled(
  core: Core,
  listener: string,
  waitMs: number,
  answer: (settled: SettledJobs) => void,
): void {
  const { listeners } = core.stored;
  const until = core.now() + waitMs;
  const isKnown = listeners.ask(listener, until, (why) =>
    answer({
      listener: why === 'leaving' ? 'leaving' : 'known',
      jobs: why === 'settled' ? takeSettled(core, listener) : [],
    }),
  );
  if (!isKnown) answer({ listener: 'unknown', jobs: [] });
}

function takeSettled(core: Core, listener: string): SettledJobs['jobs'] {
  const jobs: SettledJobs['jobs'] = [];
  for (let characters = 0, long = 0; characters < ANSWER_CHARACTERS && long < LONG_CHARACTERS; ) {
    const jobId = core.stored.listeners.take(listener);
    if (jobId === null) break;
    const told = settledText(core, jobId);
    // It was forgotten meanwhile.
    if (told === null) continue;
    jobs.push({ id: jobId, view: told.view });
    characters += told.view.length;
    long += told.long;
  }
  return jobs;
}

/**
 * A settled job as JSON. Its result is put in as the text that it was stored as.
 * @returns `long`: characters of a result that is left out
 */
function settledText(core: Core, jobId: string): { view: string; long: number } | null {
  const job = core.stored.find(jobId);
  if (job === null) return null;
  const { result: _, ...view } = viewOf(core.sql, job, false);
  const head = JSON.stringify(view).slice(0, -1);
  if (job.state !== 'succeeded') return { view: `${head},"result":null}`, long: 0 };
  const result = core.stored.takeResult(jobId);
  const isElsewhere = result === null && resultKey(core.sql, jobId) !== null;
  const length = isElsewhere ? BUCKET_CHARACTERS : (result?.length ?? 0);
  if (length > RESULT_CHARACTERS)
    return { view: `${head},"result":null,"has_long_result":true}`, long: length };
  return { view: `${head},"result":${result ?? 'null'}}`, long: 0 };
}
