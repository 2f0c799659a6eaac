import type { RouteRow } from '../types.ts';

export const documents: RouteRow[] = [
  {
    method: 'GET',
    path: '/openapi.json',
    tag: 'Documents',
    summary: 'This document',
    scopes: [],
    answers: { 200: { description: 'OpenAPI 3.1.', content: {} } },
  },
  {
    method: 'GET',
    path: '/schemas',
    tag: 'Documents',
    summary: 'The names of all schemas',
    scopes: [],
    answers: { 200: { description: 'Each with its address and what it describes.', content: {} } },
  },
  {
    method: 'GET',
    path: '/schemas/:file',
    tag: 'Documents',
    summary: 'A JSON Schema of a request, a response or a frame, such as JobView.json',
    scopes: [],
    answers: {
      200: { description: 'JSON Schema 2020-12.', content: { type: 'application/schema+json' } },
    },
    errors: [404],
  },
];
