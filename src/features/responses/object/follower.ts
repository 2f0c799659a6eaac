import { brokenOf } from '../../../asking/attempt-loop.ts';
import { EventCutter, isSettled } from '../../../protocol/index.ts';
import type { Fields } from '../types.ts';
import { eventsIn, isOutput, usedBy } from './job-end.ts';
import type { BackgroundPorts, FollowedJob, JobAnswers } from './ports.ts';
import { attempt, BROKE_OFF, end, output, running } from './progress.ts';

/** A question for news of a job waits at most this long, ms. */
const QUESTION_MS = 20_000;
/** News of a job that has given output are asked for this often, ms: the queue does not tell that it waits again. */
const PENDING_MS = 5000;
/** The pause after a call that failed, ms. */
const PAUSE_MS = 1000;
/** The events that an engine sends within this time, ms, are stored in one commit. */
const GATHER_MS = 50;

/** The code with which a relay breaks an answer whose worker is away. */
const WORKER_AWAY = 'worker_died';

type FollowPorts = BackgroundPorts & {
  /** Brings a response up to what its job is now. */
  refresh(id: string): Promise<void>;
  /** Tells the readers of a response that there is news. */
  tell(id: string): void;
};

/**
 * Follows the answer of a response that streams, until it is final. An attempt that breaks before it has given output
 * is followed by the next; after that the response has failed, since a second answer would have other words.
 */
export async function followResponse(id: string, ports: FollowPorts): Promise<void> {
  const { on, ask, sleep, log, refresh, tell, ended } = ports;
  const answers = ask.answers(id);
  let known = 0;
  let leave = new AbortController();
  for (let row = running(on, id); row !== null; row = running(on, id)) {
    let followed: FollowedJob | null = null;
    try {
      followed = await answers.follow(known, row.has_output ? PENDING_MS : QUESTION_MS);
      if (followed !== null && isSettled(followed.job.state)) await refresh(id);
    } catch (error) {
      const text = String((error as Error)?.message ?? error);
      log('warn', 'a response in the background waits: the queue cannot be reached', { id, error: text });
    }
    const job = followed?.job;
    if (followed === null || job === undefined || isSettled(job.state)) {
      if (running(on, id) !== null) await sleep(PAUSE_MS);
    } else if (isMixed(ports, id, followed)) {
      end(on, id, { ...BROKE_OFF, usage: usedBy(job) });
      ended();
      tell(id);
      await ask.cancel(id).catch(() => {});
    } else if (job.state === 'leased' && job.fence_token > known) {
      known = job.fence_token;
      leave.abort();
      leave = new AbortController();
      ports.background(noteAttempt(id, known, leave.signal, ports));
      if (followed.live)
        ports.background(readAttempt(id, known, followed.live, leave.signal, { ...ports, answers }));
    }
  }
  leave.abort();
}

/** Returns whether the job begins anew though output of an earlier attempt was given out. */
function isMixed({ on }: FollowPorts, id: string, { job }: FollowedJob): boolean {
  const row = running(on, id);
  return row?.has_output === true && (job.state === 'pending' || job.fence_token > row.fence);
}

/** Notes an attempt, unless its first words come first: one commit then has both. */
async function noteAttempt(
  id: string,
  fence: number,
  signal: AbortSignal,
  { on, sleep, tell }: FollowPorts,
): Promise<void> {
  await sleep(GATHER_MS);
  if (signal.aborted || running(on, id)?.fence === fence) return;
  attempt(on, id, fence);
  tell(id);
}

/**
 * Stores the output of an attempt as it comes, and reads it again where its relay ends and begins anew. Whatever else
 * breaks this off, the job's result has the rest.
 */
async function readAttempt(...[id, fence, live, signal, ports]: Parameters<typeof readOnce>): Promise<void> {
  while (!signal.aborted && !(await readOnce(id, fence, live, signal, ports))) await ports.sleep(PAUSE_MS);
}

/** Reads the output of an attempt from its beginning. @returns whether the relay has ended it; else the relay is gone */
async function readOnce(
  id: string,
  fence: number,
  { worker_id, stream_id }: NonNullable<FollowedJob['live']>,
  signal: AbortSignal,
  { on, answers, sleep, tell, background }: FollowPorts & { answers: JobAnswers },
): Promise<boolean> {
  let gathered: Fields[] = [];
  let number = 0;
  let isGathering = false;
  const store = () => {
    const isNew = !signal.aborted && output(on, id, fence, gathered, number);
    gathered = [];
    if (isNew) tell(id);
  };
  const gather = async () => {
    isGathering = true;
    await sleep(GATHER_MS);
    isGathering = false;
    if (gathered.length > 0) store();
  };
  try {
    for await (const text of answerOf(answers, worker_id, stream_id, signal)) {
      const events = eventsIn(text).filter(({ type }) => isOutput(type));
      gathered.push(...events);
      number += events.length;
      if (isGathering || gathered.length === 0) continue;
      // The first words are not held back.
      store();
      background(gather());
    }
    store();
    return true;
  } catch {
    // The loop that follows the job learns of the attempt's end.
    return false;
  }
}

/** Yields the text of an attempt's answer in pieces that begin and end between two events. */
async function* answerOf(
  answers: JobAnswers,
  workerId: string,
  streamId: number,
  signal: AbortSignal,
): AsyncGenerator<string> {
  const response = await answers.openReplay(workerId, streamId, signal);
  const broken = brokenOf(response);
  // The relay has waited in vain for a worker that may still come back.
  if (broken?.code === WORKER_AWAY) throw new Error(broken.message);
  if (response.body === null || broken !== null) return;
  const reader = response.body.getReader();
  const leave = () => void reader.cancel().catch(() => {});
  signal.addEventListener('abort', leave, { once: true });
  const cutter = new EventCutter();
  const decoder = new TextDecoder();
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done || signal.aborted) return;
      const whole = cutter.push(value);
      if (whole !== null) yield decoder.decode(whole);
    }
  } finally {
    signal.removeEventListener('abort', leave);
    leave();
  }
}
