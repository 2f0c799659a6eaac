import type { Parameter, RouteRow } from '../types.ts';

const ticket: Record<string, Parameter> = {
  fence_token: { description: 'Of the attempt.', type: 'integer' },
  key: { description: 'From the address; it is the right to use it.' },
};
const taken = { 200: { description: 'It is kept.', content: { schema: 'Ok' as const } } };

/** What workers use. */
export const workers: RouteRow[] = [
  {
    method: 'GET',
    path: '/ws',
    tag: 'Workers',
    summary: 'The control socket of a worker',
    description: 'The worker sends WorkerFrame and is sent QueueFrame (docs/protocol.md).',
    scopes: ['worker'],
    query: {
      config_id: { description: 'Its config.' },
      worker_id: { description: 'Its id.' },
    },
    answers: { 101: { description: 'The socket is open.' } },
    errors: [426, 503],
  },
  {
    method: 'GET',
    path: '/answers',
    tag: 'Workers',
    summary: 'The answer socket of a worker',
    description:
      'Binary messages of records (docs/protocol.md); AnswerHead and BrokenReason are the JSON in two of them.',
    scopes: ['worker'],
    query: {
      worker_id: { description: 'Its id.' },
      session_id: { description: 'As the control socket told it.' },
    },
    answers: { 101: { description: 'The socket is open.' } },
    errors: [400, 409, 426, 503],
  },
  {
    method: 'POST',
    path: '/api/heartbeats',
    tag: 'Workers',
    summary: 'What a worker tells of itself',
    scopes: ['worker'],
    body: { schema: 'Heartbeat' },
    answers: taken,
    errors: [400, 404, 413, 503],
  },
  {
    method: 'POST',
    path: '/api/logs',
    tag: 'Workers',
    summary: 'Log lines of a worker and its engine',
    scopes: ['worker'],
    body: { schema: 'LogBatch' },
    answers: taken,
    errors: [400, 404, 413, 503],
  },
  {
    method: 'POST',
    path: '/api/metrics',
    tag: 'Workers',
    summary: 'Samples of a worker',
    scopes: ['worker'],
    body: { schema: 'MetricBatch' },
    answers: taken,
    errors: [400, 404, 413, 503],
  },
  {
    method: 'GET',
    path: '/jobs/:id/payload',
    tag: 'Workers',
    summary: 'A payload that is too large for a frame',
    description: 'No token is asked for: the address, which the job came with, holds a key.',
    scopes: [],
    query: ticket,
    answers: { 200: { description: 'The payload.', content: {} } },
    errors: [400, 404, 409, 503],
  },
  {
    method: 'PUT',
    path: '/jobs/:id/result',
    tag: 'Workers',
    summary: 'A result that is too large for a frame',
    description: 'No token is asked for: the address, which the job came with, holds a key.',
    scopes: [],
    query: ticket,
    body: {},
    answers: { 201: { description: 'It is kept.', content: { schema: 'Ok' } } },
    errors: [400, 404, 409, 413, 503],
  },
];
