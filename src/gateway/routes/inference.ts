import { INFERENCE_ROUTES } from '../../protocol/index.ts';
import { variableOf } from '../../settings/queue-settings.ts';
import { authorize } from '../auth/authorize.ts';
import { readBody } from '../bodies/body.ts';
import { inferenceRoutesOf } from '../env.ts';
import { HttpError, otherMethod } from '../errors.ts';
import { answer } from '../inference/answer.ts';
import { callForResponse } from '../inference/call-engine.ts';
import { mostBodyBytes, readRequest } from '../inference/read-request.ts';
import type { Parameter, RouteRow } from '../openapi/document.ts';
import { type Gateway, type GatewayContext, needs } from './route.ts';

const seconds = (description: string): Parameter => ({ description, type: 'number' });
const headers: RouteRow['headers'] = {
  'X-Queue-Wait': seconds('How long to wait for a worker instead of answering 503, s (up to 3600).'),
  'X-Queue-Deadline': seconds('The whole answer is wanted within so many seconds.'),
  'X-Request-Timeout': seconds('The request is ended after so many seconds, whatever it is doing.'),
  'X-Session-Id': { description: 'The conversation that it belongs to, which an alias keeps at one model.' },
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

/**
 * Registers inference: the caller waits while the request is a job. One handler serves every route of the engine that
 * is on the list, so it comes after all routes of the gateway's own.
 */
export function inferenceRoute(app: Gateway): void {
  const own = new Set(app.rows.map(({ method, path }) => `${method} ${path}`));
  app.rows.push(...PASSED_THROUGH.filter(({ method, path }) => !own.has(`${method} ${path}`)));
  for (const path of ['/v1/realtime', '/v1/realtime/*']) app.all(path, needs('submit'), rejectRealtime);

  app.all('*', async (context, next) => {
    const { pathname, search } = new URL(context.req.raw.url);
    // A slash at the end changes nothing for engines, which redirect.
    const path = pathname.replace(/(?<=.)\/$/, '');
    const methods = inferenceRoutesOf(context.env).methodsOf(path);
    if (methods.length === 0) return await next();
    const { method } = context.req;
    if (!methods.includes(method)) throw otherMethod(method, path, methods);
    context.set('token', await authorize(context.req.raw, context.env, ['submit']));
    return passThrough(context, path, search);
  });
}

function rejectRealtime(): never {
  throw new HttpError(
    501,
    'Realtime sessions do not pass through: they are WebSockets between caller and engine. Use /v1/audio/transcriptions or /v1/chat/completions.',
    'realtime_not_supported',
  );
}

async function passThrough(context: GatewayContext, pathname: string, search: string): Promise<Response> {
  const { env, req } = context;
  const most = mostBodyBytes(env);
  const incoming = {
    head: req.raw,
    pathname,
    path: pathname + search,
    token: context.get('token'),
  };
  const asked = await readRequest(env, incoming, () =>
    readBody(req.raw, env, most, variableOf('max_body_bytes')),
  );
  context.set('requestId', asked.errorOf.requestId);
  // The call is not awaited, so this function ends here and holds no payload while the answer runs.
  const { attempted, hangUp } = callForResponse(context, asked);
  return answer(env, asked, attempted, hangUp);
}
