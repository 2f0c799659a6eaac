import type { JobFrame, RawWorker } from './raw-worker.ts';

/** The answer of a test's worker to a line: one of its engine, or none yet. */
export type LineAnswer = { status?: number; body: unknown } | null;

type Settled = NonNullable<LineAnswer>;

/**
 * Answers every job that comes to the worker, each once.
 * @returns what stops it, what settles those without an answer yet, and the ids of all that came, in order
 */
export function answerLines(
  worker: RawWorker,
  answer: (body: Record<string, unknown>, frame: JobFrame) => LineAnswer,
): { ids: string[]; stop: () => void; settle: (frame: JobFrame, answered: Settled) => void } {
  const ids: string[] = [];
  let seen = 0;
  const timer = setInterval(() => {
    for (; seen < worker.frames.length; seen++) {
      const frame = worker.frames[seen] as JobFrame;
      if (frame.type !== 'job') continue;
      ids.push(frame.job_id);
      const { body } = frame.payload as { body: string };
      const answered = answer(JSON.parse(body) as Record<string, unknown>, frame);
      if (answered !== null) settle(worker, frame, answered);
    }
  }, 5);
  return {
    ids,
    stop: () => clearInterval(timer),
    settle: (frame, answered) => settle(worker, frame, answered),
  };
}

function settle(worker: RawWorker, frame: JobFrame, { status = 200, body }: Settled): void {
  if (status < 400) {
    const response = { status, content_type: 'application/json', body };
    worker.result(frame, { status: 'success', job_type: 'engine_request', processed_at: '', response });
    return;
  }
  const { job_id, fence_token } = frame;
  const error = `the engine answered ${status}`;
  worker.send({
    type: 'job_error',
    job_id,
    fence_token,
    error,
    code: 'engine_refused',
    retryable: false,
    http_status: status,
    body,
  });
}
