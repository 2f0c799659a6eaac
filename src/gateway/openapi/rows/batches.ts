import type { RouteRow } from '../types.ts';

/** OpenAI's Batch API. */
export const batches: RouteRow[] = [
  {
    method: 'POST',
    path: '/v1/batches',
    tag: 'Files',
    summary: 'Runs every line of a file',
    description:
      'The lines are read afterwards: what is wrong with them shows in the batch, which then has the status failed.',
    scopes: ['submit'],
    headers: { 'Idempotency-Key': { description: 'The same key answers the same batch.' } },
    body: {
      schema: 'BatchRequest',
      example: { input_file_id: 'file-1', endpoint: '/v1/chat/completions', completion_window: '24h' },
    },
    answers: { 200: { description: 'The batch.', content: { schema: 'Batch' } } },
    errors: [400, 404, 413, 503],
  },
  {
    method: 'GET',
    path: '/v1/batches',
    tag: 'Files',
    summary: 'The batches there are, newest first',
    scopes: ['submit', 'read'],
    query: {
      limit: { description: 'Batches of a page, 20 unless given, at most 100.', type: 'integer' },
      after: { description: 'The last batch of the page before.' },
    },
    answers: { 200: { description: 'A page.', content: { schema: 'BatchList' } } },
    errors: [400, 404, 503],
  },
  {
    method: 'GET',
    path: '/v1/batches/:id',
    tag: 'Files',
    summary: 'One of them',
    scopes: ['submit', 'read'],
    answers: { 200: { description: 'The batch.', content: { schema: 'Batch' } } },
    errors: [404, 503],
  },
  {
    method: 'POST',
    path: '/v1/batches/:id/cancel',
    tag: 'Files',
    summary: 'Cancels it; what has been run is kept',
    scopes: ['submit'],
    answers: { 200: { description: 'The batch.', content: { schema: 'Batch' } } },
    errors: [404, 503],
  },
];
