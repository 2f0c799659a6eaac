import type { Parameter, RouteRow } from '../types.ts';

const page: Record<string, Parameter> = {
  limit: { description: 'Items of a page, 200 unless given, at most 1,000.', type: 'integer' },
  before: { description: 'The last items with a smaller number.', type: 'integer' },
  after: { description: 'The first items with a greater number.', type: 'integer' },
};

/** What is known of workers and models. */
export const fleet: RouteRow[] = [
  {
    method: 'GET',
    path: '/v1/models',
    tag: 'Inference',
    summary: 'The models that connected workers serve, and their aliases',
    scopes: ['submit', 'read'],
    answers: { 200: { description: 'The models.', content: { schema: 'ModelList' } } },
    errors: [503],
  },
  {
    method: 'GET',
    path: '/v1/models/:id{.+}',
    tag: 'Inference',
    summary: 'One of them',
    scopes: ['submit', 'read'],
    answers: { 200: { description: 'The model.', content: { schema: 'Model' } } },
    errors: [404, 503],
  },
  {
    method: 'GET',
    path: '/api/fleet',
    tag: 'Fleet',
    summary: 'The fleet in one view: a verdict, what needs attention, configs and workers',
    scopes: ['read'],
    answers: { 200: { description: 'The view.', content: { schema: 'FleetView' } } },
    errors: [503],
  },
  {
    method: 'GET',
    path: '/api/fleet/history',
    tag: 'Fleet',
    summary:
      'What a worker or a config measured: the newest hour in full detail, or the newest day by minute',
    scopes: ['read'],
    query: {
      worker_id: { description: 'Whose; either this or config_id.' },
      config_id: { description: 'Whose; either this or worker_id.' },
      range: { description: '1h unless given, or 24h.' },
    },
    answers: { 200: { description: 'The series.', content: { schema: 'FleetHistory' } } },
    errors: [400, 503],
  },
  {
    method: 'GET',
    path: '/api/fleet/live',
    tag: 'Fleet',
    summary: 'The same as a WebSocket that tells what changes',
    description: 'The viewer sends FleetViewerFrame and is sent FleetFrame; "ping" is answered with "pong".',
    scopes: ['read'],
    answers: { 101: { description: 'The socket is open.' } },
    errors: [426, 503],
  },
  {
    method: 'GET',
    path: '/api/workers',
    tag: 'Fleet',
    summary: 'All workers, connected or heard of',
    scopes: ['read'],
    answers: { 200: { description: 'The workers.', content: { schema: 'WorkerList' } } },
    errors: [503],
  },
  {
    method: 'GET',
    path: '/api/workers/:id/logs',
    tag: 'Fleet',
    summary: "A worker's newest log lines",
    scopes: ['read'],
    query: page,
    answers: { 200: { description: 'A page.', content: { schema: 'LogPage' } } },
    errors: [400, 503],
  },
  {
    method: 'GET',
    path: '/api/workers/:id/metrics',
    tag: 'Fleet',
    summary: "A worker's newest samples",
    scopes: ['read'],
    query: page,
    answers: { 200: { description: 'A page.', content: { schema: 'MetricPage' } } },
    errors: [400, 503],
  },
  ...['/health', '/healthz'].map(
    (path): RouteRow => ({
      method: 'GET',
      path,
      tag: 'Fleet',
      summary: 'That the gateway is up',
      description: 'Open to probes without a token; with one of the scope read, also how the queue stands.',
      scopes: [],
      answers: { 200: { description: 'It is.', content: { schema: 'Health' } } },
      errors: [503],
    }),
  ),
];
