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
  {
    method: 'GET',
    path: '/health',
    tag: 'Fleet',
    summary: 'That the gateway is up',
    description: 'Open to probes without a token; with one of the scope read, also how the queue stands.',
    scopes: [],
    answers: { 200: { description: 'It is.', content: { schema: 'Health' } } },
    errors: [503],
  },
];
