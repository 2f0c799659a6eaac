import type { RouteRow } from '../types.ts';

/** OpenAI's Files API. */
export const files: RouteRow[] = [
  {
    method: 'POST',
    path: '/v1/files',
    tag: 'Files',
    summary: 'Uploads a file',
    description:
      'A form with `file`, `purpose` (batch or user_data) and, if wanted, `expires_after[anchor]` and `expires_after[seconds]`, in any order. A body that is no form is the file itself, with these in the query.',
    scopes: ['submit'],
    query: {
      purpose: { description: 'What it is for, where the body is no form.', enum: ['batch', 'user_data'] },
      filename: { description: 'Its name, where the body is no form.' },
    },
    body: [{ type: 'multipart/form-data' }, { type: 'application/jsonl' }],
    answers: { 200: { description: 'The file.', content: { schema: 'StoredFile' } } },
    errors: [400, 408, 413, 429, 503],
  },
  {
    method: 'GET',
    path: '/v1/files',
    tag: 'Files',
    summary: 'The files there are, newest first',
    scopes: ['submit', 'read'],
    query: {
      purpose: { description: 'Only these.', enum: ['batch', 'batch_output', 'user_data'] },
      limit: { description: 'Files of a page, at most 10,000.', type: 'integer' },
      order: { description: 'By when they were uploaded.', enum: ['asc', 'desc'] },
      after: { description: 'The last file of the page before.' },
    },
    answers: { 200: { description: 'A page.', content: { schema: 'StoredFileList' } } },
    errors: [400, 404, 503],
  },
  {
    method: 'GET',
    path: '/v1/files/:id',
    tag: 'Files',
    summary: 'One of them',
    scopes: ['submit', 'read'],
    answers: { 200: { description: 'The file.', content: { schema: 'StoredFile' } } },
    errors: [404, 503],
  },
  {
    method: 'GET',
    path: '/v1/files/:id/content',
    tag: 'Files',
    summary: 'Its bytes',
    scopes: ['submit'],
    answers: { 200: { description: 'The bytes.', content: { type: 'application/octet-stream' } } },
    errors: [404, 503],
  },
  {
    method: 'DELETE',
    path: '/v1/files/:id',
    tag: 'Files',
    summary: 'Deletes it',
    scopes: ['submit'],
    answers: { 200: { description: 'It is gone.', content: {} } },
    errors: [404, 409, 503],
  },
];
