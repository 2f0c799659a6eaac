import type { Parameter, RouteRow } from '../types.ts';

const wait: Parameter = {
  description: 'Answers as soon as the job is settled, or as it stands after so many seconds (up to 300).',
  type: 'number',
};
const states = ['pending', 'leased', 'succeeded', 'failed', 'cancelled', 'expired'];

const JOB = { job_type: 'chat_completion', payload: { messages: [{ role: 'user', content: 'Hello' }] } };

export const jobs: RouteRow[] = [
  {
    method: 'POST',
    path: '/api/jobs',
    tag: 'Jobs',
    summary: 'Stores one job, an array of up to 1,000, or lines of up to 10,000',
    description:
      'The same id with the same payload returns the existing job (200), with another payload it is a conflict. Of an array, each place of the answer says what became of the job in that place.',
    scopes: ['submit'],
    headers: { 'Idempotency-Key': { description: 'Another way to set the id of one job.' } },
    body: [
      { schema: 'JobSubmission', example: JOB },
      { schema: ['JobSubmission'], example: [JOB, { ...JOB, id: 'second' }] },
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
  },
  {
    method: 'GET',
    path: '/api/jobs',
    tag: 'Jobs',
    summary: 'The stored jobs, newest first',
    scopes: ['submit', 'read'],
    query: {
      state: { description: 'Only those in this state.', enum: states },
      config_id: { description: 'Only those of this config.' },
      job_type: { description: 'Only those of this type.' },
      tenant: { description: 'Only those of this tenant.' },
      worker_id: { description: 'Only those that this worker had last.' },
      error_code: { description: 'Only those that ended with this error.' },
      id_prefix: { description: 'Only those whose ids begin so, in the order of their ids.' },
      since: { description: 'Submitted then or later: ISO time, or epoch seconds.' },
      until: { description: 'Submitted before: ISO time, or epoch seconds.' },
      limit: { description: 'Jobs of a page, 50 unless given, at most 500.', type: 'integer' },
      cursor: { description: 'The "next" of the page before.' },
    },
    answers: { 200: { description: 'A page.', content: { schema: 'JobPage' } } },
    errors: [400, 503],
  },
  {
    method: 'GET',
    path: '/api/jobs/events',
    tag: 'Jobs',
    summary: 'Settlements as server-sent events',
    scopes: ['submit', 'read'],
    query: {
      after: { description: 'The number of the last event that is known; the header goes before.' },
      config_id: { description: 'Only those of this config.' },
    },
    headers: { 'Last-Event-ID': { description: 'The number of the last event that is known.' } },
    answers: {
      200: {
        description: 'Events "settled", each with its number as id; "gap" where some may be missing.',
        content: { type: 'text/event-stream', schema: 'SettlementEvent' },
      },
    },
    errors: [400, 429, 503],
  },
  {
    method: 'GET',
    path: '/api/jobs/socket',
    tag: 'Jobs',
    summary: 'A WebSocket for programs that submit many jobs',
    description: 'The program sends ClientFrame and is sent ClientAnswer (docs/protocol.md).',
    scopes: ['submit'],
    answers: { 101: { description: 'The socket is open.' } },
    errors: [426],
  },
  {
    method: 'GET',
    path: '/api/jobs/:id',
    tag: 'Jobs',
    summary: 'A job',
    scopes: ['submit', 'read'],
    query: { wait, result: { description: '0: without its result.', enum: ['0'] } },
    answers: { 200: { description: 'The job.', content: { schema: 'JobView' } } },
    errors: [400, 404, 503],
  },
  ...(['payload', 'result'] as const).map(
    (what): RouteRow => ({
      method: 'GET',
      path: `/api/jobs/:id/${what}`,
      tag: 'Jobs',
      summary: `The ${what} of a job by itself, as a file`,
      description:
        'Of jobs of the own tenant; with the scope admin of every job (docs/security.md, "Tenants").',
      scopes: ['submit'],
      answers: { 200: { description: `The ${what}.`, content: {} } },
      errors: [404, 503],
    }),
  ),
  {
    method: 'POST',
    path: '/api/jobs/:id/retry',
    tag: 'Jobs',
    summary: 'A job that failed or expired is tried again under its id',
    scopes: ['submit'],
    answers: { 200: { description: 'The job as it is now.', content: { schema: 'JobView' } } },
    errors: [404, 409, 503],
  },
  {
    method: 'DELETE',
    path: '/api/jobs/:id',
    tag: 'Jobs',
    summary: 'Cancels a job; the engine stops generating',
    scopes: ['submit'],
    answers: { 200: { description: 'The job as it is now.', content: { schema: 'CancelledJob' } } },
    errors: [404, 503],
  },
  {
    method: 'GET',
    path: '/api/jobs/:id/ledger',
    tag: 'Jobs',
    summary: 'What happened to a job, or to a recent request of /v1/…, step by step',
    scopes: ['submit', 'read'],
    answers: { 200: { description: 'Its steps.', content: { schema: 'LedgerView' } } },
    errors: [404, 503],
  },
  {
    method: 'GET',
    path: '/api/jobs/:id/stream',
    tag: 'Jobs',
    summary: 'The answer of a job that was submitted with stream: true, from its beginning',
    scopes: ['submit'],
    answers: {
      200: { description: "The engine's own events.", content: { type: 'text/event-stream' } },
    },
    errors: [404, 409, 410, 503],
  },
];
