import type { RouteRow } from '../types.ts';

const SUBMISSION = { schema: 'RunpodSubmission', example: { input: { prompt: 'Hello' } } } as const;
const JOB = { 200: { description: 'The job.', content: { schema: 'RunpodJob' } } } as const;

/** With GET and with POST, as RunPod's clients ask. */
function both(row: Omit<RouteRow, 'method'>): RouteRow[] {
  return [
    { ...row, method: 'GET' },
    { ...row, method: 'POST' },
  ];
}

/** The endpoints of RunPod's platform (docs/runpod.md). */
export const runpod: RouteRow[] = [
  {
    method: 'POST',
    path: '/v2/:endpoint/run',
    tag: 'RunPod',
    summary: 'Stores a job',
    scopes: ['submit'],
    body: SUBMISSION,
    answers: { 200: { description: 'It is stored.', content: { schema: 'RunpodSubmitted' } } },
    errors: [400, 404, 413, 429, 503],
  },
  {
    method: 'POST',
    path: '/v2/:endpoint/runsync',
    tag: 'RunPod',
    summary: 'Stores a job and waits for its end',
    scopes: ['submit'],
    query: {
      wait: { description: 'At most, ms: 1,000 to 300,000, 90,000 unless given.', type: 'integer' },
    },
    body: SUBMISSION,
    answers: JOB,
    errors: [400, 404, 413, 429, 503],
  },
  ...both({
    path: '/v2/:endpoint/status/:id',
    tag: 'RunPod',
    summary: 'A job',
    scopes: ['submit', 'read'],
    answers: JOB,
    errors: [404, 503],
  }),
  ...both({
    path: '/v2/:endpoint/stream/:id',
    tag: 'RunPod',
    summary: 'What a job yielded since the last call',
    scopes: ['submit'],
    answers: { 200: { description: 'Its pieces.', content: { schema: 'RunpodStream' } } },
    errors: [404, 503],
  }),
  {
    method: 'POST',
    path: '/v2/:endpoint/cancel/:id',
    tag: 'RunPod',
    summary: 'Cancels a job',
    scopes: ['submit'],
    answers: JOB,
    errors: [404, 503],
  },
  {
    method: 'POST',
    path: '/v2/:endpoint/retry/:id',
    tag: 'RunPod',
    summary: 'Runs a job again that failed or timed out',
    scopes: ['submit'],
    answers: { 200: { description: 'It waits again.', content: { schema: 'RunpodSubmitted' } } },
    errors: [400, 404, 503],
  },
  {
    method: 'POST',
    path: '/v2/:endpoint/purge-queue',
    tag: 'RunPod',
    summary: 'Cancels all jobs that wait',
    scopes: ['submit'],
    answers: { 200: { description: 'They are gone.', content: { schema: 'RunpodPurged' } } },
    errors: [404, 503],
  },
  {
    method: 'GET',
    path: '/v2/:endpoint/health',
    tag: 'RunPod',
    summary: 'Jobs and workers of an endpoint',
    scopes: ['submit', 'read'],
    answers: { 200: { description: 'How many there are.', content: { schema: 'RunpodHealth' } } },
    errors: [404, 503],
  },
];
