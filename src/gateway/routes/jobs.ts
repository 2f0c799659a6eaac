import { bounds, traceContextOf } from '../../protocol/index.ts';
import type { SubmitAnswer } from '../../queue/rpc.ts';
import { auditedOfJob, stateAfter } from '../audit.ts';
import { aliasesFor } from '../auth/aliases.ts';
import { readerOf, viewerOf } from '../auth/authorize.ts';
import { type Permissions, permissionsOf } from '../auth/permissions.ts';
import { submissionOf } from '../auth/terms.ts';
import { whileGood } from '../auth/tokens.ts';
import { readBody } from '../bodies/body.ts';
import { takeTurn } from '../bodies/receive.ts';
import { HttpError } from '../errors.ts';
import { respondEarly } from '../inference/answer.ts';
import {
  ERASED,
  jobAnswer,
  jsonResponse,
  unknownJob,
  withheldFrom,
  withoutResult,
} from '../jobs/job-files.ts';
import {
  isLines,
  parseJobs,
  type ReadJob,
  readSubmission,
  rejection,
  submitAll,
  submitLines,
} from '../jobs/submissions.ts';
import { submitJobs } from '../jobs/submit-jobs.ts';
import { callQueue } from '../objects/calls.ts';
import { queueIdOf } from '../objects/ids.ts';
import { waitingOfJob } from '../objects/work.ts';
import type { Parameter } from '../openapi/document.ts';
import { type Gateway, route } from './route.ts';

/** The longest `?wait=`, seconds. */
const LONGEST_WAIT_SECONDS = 300;

const WAIT: Parameter = {
  description: 'Answers as soon as the job is settled, or as it stands after so many seconds (up to 300).',
  type: 'number',
};

const EXAMPLE = {
  job_type: 'chat_completion',
  payload: { messages: [{ role: 'user', content: 'Hello' }] },
};

/** Registers the routes that submit, show, retry and cancel stored jobs. */
export function jobRoutes(app: Gateway): void {
  route(app, {
    method: 'POST',
    path: '/api/jobs',
    tag: 'Jobs',
    summary: 'Stores one job, an array of up to 1,000, or lines of up to 10,000',
    description:
      'The same id with the same payload returns the existing job (200), with another payload it is a conflict. Of an array, each place of the answer says what became of the job in that place.',
    scopes: ['submit'],
    headers: {
      'Idempotency-Key': { description: 'Sent again with the same key, a request makes nothing new.' },
    },
    body: [
      { schema: 'JobSubmission', example: EXAMPLE },
      { schema: ['JobSubmission'], example: [EXAMPLE, { ...EXAMPLE, id: 'second' }] },
      { type: 'application/x-ndjson' },
    ],
    answers: {
      200: {
        description: 'The job that there was, or what became of several.',
        content: [
          { schema: 'JobView' },
          { schema: ['SubmittedJob'] },
          { type: 'application/x-ndjson', schema: 'SubmittedLine' },
        ],
      },
      201: { description: 'The job is stored.', content: { schema: 'JobView' } },
    },
    errors: [400, 404, 409, 413, 429, 503],
    handler: async (context) => {
      const request = context.req.raw;
      const queueId = queueIdOf(context.env, request);
      const key = request.headers.get('idempotency-key') ?? undefined;
      const submitter = submissionOf(context.get('token'));
      const permissions = permissionsOf(
        context.get('token'),
        await aliasesFor(context.env, queueId, context.get('token')),
      );
      const submission = traceContextOf(request.headers);
      const submit = (jobs: ReadJob[]) => {
        const trace = submission && {
          trace: jobs.length > 1 ? { ...submission, is_link: true } : submission,
        };
        const sent = jobs.map((job) => ({ ...job, ...submitter, ...trace }));
        return submitJobs(context.env, queueId, sent);
      };
      const { bytes, release } = await readBody(request, context.env);
      let endTurn = () => {};
      // The runtime runs nothing below for a request that it drops, as in `readBody`.
      request.signal.addEventListener('abort', () => endTurn());
      const turn = async (size: number) => {
        endTurn = await takeTurn(size, context.env);
        return endTurn;
      };
      try {
        if (isLines(request)) {
          if (key)
            throw new HttpError(400, 'Idempotency-Key names one job; give the job of each line its own id.');
          return await submitLines(bytes, permissions, submit, turn);
        }
        await turn(bytes.byteLength);
        const body = parseJobs(bytes);
        release();
        if (Array.isArray(body)) {
          if (key)
            throw new HttpError(400, 'Idempotency-Key names one job; give each job of an array its own id.');
          return jsonResponse(await submitMany(body, permissions, submit));
        }
        const job = readSubmission(body, permissions, key);
        if (job instanceof HttpError) throw job;
        const [answer] = await submit([job]);
        if (!answer?.ok) throw rejection(answer);
        return await jobAnswer(context.env, queueId, answer.job, answer.created ? 201 : 200);
      } finally {
        endTurn();
        release();
      }
    },
  });

  route(app, {
    method: 'GET',
    path: '/api/jobs/:id',
    tag: 'Jobs',
    summary: 'A job',
    scopes: ['submit', 'read'],
    query: { wait: WAIT, result: { description: '0: without its result.', enum: ['0'] } },
    answers: { 200: { description: 'The job.', content: { schema: 'JobView' } } },
    errors: [400, 404, 503],
    handler: async (context) => {
      const id = context.req.param('id');
      const viewer = viewerOf(context.get('token'));
      const reader = readerOf(context.get('token'), context.env);
      // Callers that ask for no result are spared its megabytes.
      const isBare = context.req.query('result') === '0';
      const waitMs = waitOf(context.req.query('wait')) * 1000;
      const queueId = queueIdOf(context.env, context.req.raw);
      const look = async () => {
        const job = await callQueue(context.env, queueId, (queue) =>
          waitMs > 0 ? queue.wait(id, waitMs, viewer) : queue.get(id, viewer),
        );
        if (!job) throw unknownJob(id);
        const waiting = job.state === 'pending' ? await waitingOfJob(context.env, queueId, id, viewer) : null;
        const told = isBare ? withoutResult(job) : withheldFrom(reader, job);
        return jobAnswer(context.env, queueId, waiting === null ? told : { ...told, waiting });
      };
      if (waitMs === 0) return look();
      // The response begins early, so that a caller who has left is noticed and its connection freed.
      return respondEarly(whileGood(context.get('token'), context.env, look()), {
        kind: 'json',
        headers: {},
        errorOf: { dialect: 'openai', requestId: context.get('requestId') },
        timers: globalThis,
        hangUp: () => {},
      });
    },
  });

  route(app, {
    method: 'GET',
    path: '/api/jobs/:id/ledger',
    tag: 'Jobs',
    summary: 'What happened to a job, or to a recent request of /v1/…, step by step',
    scopes: ['submit', 'read'],
    answers: { 200: { description: 'Its steps.', content: { schema: 'LedgerView' } } },
    errors: [404, 503],
    handler: async (context) => {
      const id = context.req.param('id');
      const viewer = viewerOf(context.get('token'));
      const ledger = await callQueue(context.env, queueIdOf(context.env, context.req.raw), (queue) =>
        queue.ledger(id, viewer),
      );
      if (ledger) return context.json(ledger);
      const message = `No job has the id "${id}" (any more). A stored job keeps its ledger until it is removed, some time after it is settled; of requests that waited for their answer (/v1/…) those of the newest 1,000 are kept in memory.`;
      throw new HttpError(404, message, 'job_not_found');
    },
  });

  route(app, {
    method: 'POST',
    path: '/api/jobs/:id/retry',
    tag: 'Jobs',
    summary: 'A job that failed or expired is tried again under its id',
    scopes: ['submit'],
    answers: { 200: { description: 'The job as it is now.', content: { schema: 'JobView' } } },
    errors: [404, 409, 503],
    handler: async (context) => {
      const id = context.req.param('id');
      const viewer = viewerOf(context.get('token'));
      const queueId = queueIdOf(context.env, context.req.raw);
      const retry = async () => {
        const answer = await callQueue(context.env, queueId, (queue) => queue.retry(id, viewer));
        if (!answer) throw unknownJob(id);
        if (answer.ok) return answer.job;
        const message = answer.is_erased
          ? ERASED
          : `Job "${id}" is ${answer.state}: only what failed or expired can be tried again.`;
        throw new HttpError(409, message, 'not_retryable');
      };
      return context.json(await auditedOfJob(context, 'job.retry', id, retry, stateAfter));
    },
  });

  route(app, {
    method: 'DELETE',
    path: '/api/jobs/:id',
    tag: 'Jobs',
    summary: 'Cancels a job; the engine stops generating',
    scopes: ['submit'],
    answers: { 200: { description: 'The job as it is now.', content: { schema: 'CancelledJob' } } },
    errors: [404, 503],
    handler: async (context) => {
      const id = context.req.param('id');
      const viewer = viewerOf(context.get('token'));
      const queueId = queueIdOf(context.env, context.req.raw);
      const cancel = async () => {
        const job = await callQueue(context.env, queueId, (queue) => queue.cancel(id, 'cancelled', viewer));
        if (job) return job;
        throw unknownJob(id);
      };
      const job = await auditedOfJob(context, 'job.cancel', id, cancel, stateAfter);
      if (!('result' in job)) return context.json(job);
      const reader = readerOf(context.get('token'), context.env);
      return jobAnswer(context.env, queueId, withheldFrom(reader, job));
    },
  });
}

/**
 * Submits several jobs. The valid ones go in one commit; each place of the answer holds what became of the job in that
 * place.
 */
async function submitMany(
  bodies: unknown[],
  permissions: Permissions,
  submit: (jobs: ReadJob[]) => Promise<SubmitAnswer[]>,
) {
  if (bodies.length === 0 || bodies.length > bounds.JOBS_PER_SUBMISSION) {
    throw new HttpError(
      400,
      `An array must hold 1 to ${bounds.JOBS_PER_SUBMISSION} jobs; this one holds ${bodies.length}.`,
      'invalid_job',
    );
  }
  return submitAll(
    bodies.map((body) => readSubmission(body, permissions)),
    submit,
  );
}

function waitOf(text: string | undefined): number {
  if (text === undefined) return 0;
  const seconds = text.trim() === '' ? Number.NaN : Number(text);
  if (!(seconds >= 0 && seconds <= LONGEST_WAIT_SECONDS)) {
    throw new HttpError(400, `wait: expected seconds from 0 to ${LONGEST_WAIT_SECONDS}.`, 'invalid_wait');
  }
  return seconds;
}
