import { INFERENCE_ROUTES } from '../../protocol/index.ts';
import type { Parameter, RouteRow } from '../openapi/row.ts';

const seconds = (description: string): Parameter => ({ description, type: 'number' });
const headers: RouteRow['headers'] = {
  'X-Queue-Wait': seconds('How long to wait for a worker instead of answering 503, s (up to 3600).'),
  'X-Queue-Deadline': seconds('The whole answer is wanted within so many seconds.'),
  'X-Request-Timeout': seconds('The request is ended after so many seconds, whatever it is doing.'),
  'X-Request-Id': { description: "The caller's name for it; reaches the engine and comes back." },
  traceparent: { description: 'The trace it belongs to, as W3C Trace Context writes it.' },
};

/** Examples for the routes where one helps: the engine decides what a body may hold. */
const EXAMPLES: Record<string, unknown> = {
  'POST /v1/chat/completions': { model: 'qwen-small', messages: [{ role: 'user', content: 'Hello' }] },
  'POST /v1/completions': { model: 'qwen-small', prompt: 'Hello', max_tokens: 16 },
  'POST /v1/embeddings': { model: 'bge-small', input: ['a', 'b'] },
  'POST /v1/messages': {
    model: 'qwen-small',
    max_tokens: 16,
    messages: [{ role: 'user', content: 'Hello' }],
  },
  'POST /v1/responses': { model: 'qwen-small', input: 'Hello' },
};

/** Routes that the gateway answers itself. */
const OWN = new Set(['GET /v1/models', 'GET /v1/models/{id}']);

/** The rows of the engine's routes, whose bodies the gateway passes through unread but for what the queue must know. */
export const PASSED_THROUGH: RouteRow[] = INFERENCE_ROUTES.filter((route) => !OWN.has(route)).map((route) => {
  const [method, path] = route.split(' ') as [RouteRow['method'], string];
  return {
    method,
    path: path.replaceAll('{id}', ':id'),
    tag: 'Inference',
    summary: "Passed through to an engine and back; body, answer and errors are the engine's own",
    scopes: ['submit'],
    headers,
    ...(method === 'POST' && { body: { example: EXAMPLES[route] } }),
    answers: { 200: { description: "The engine's answer.", content: [{}, { type: 'text/event-stream' }] } },
    errors: [400, 404, 408, 413, 429, 501, 502, 503, 504],
  };
});
