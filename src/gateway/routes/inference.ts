import { openedResponse } from '../../asking/attempt-loop.ts';
import { HangUp } from '../../asking/hang-up.ts';
import { variableOf } from '../../settings/queue-settings.ts';
import { authorize } from '../auth.ts';
import { readBody } from '../body.ts';
import { HttpError, otherMethod } from '../errors.ts';
import { answer } from '../inference/answer.ts';
import { mostBodyBytes, readRequest } from '../inference/asked.ts';
import { callEngine } from '../inference/call-engine.ts';
import { inferenceRoutesOf } from '../inference/routes.ts';
import { PASSED_THROUGH } from './passed-through.ts';
import { type Gateway, type GatewayContext, needs } from './route.ts';

/**
 * Registers inference: the caller waits while the request is a job. One handler serves every route of the engine that
 * is on the list, so it comes after all routes of the gateway's own.
 */
export function inferenceRoute(app: Gateway): void {
  app.rows.push(...PASSED_THROUGH);
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
  const { env, req, executionCtx } = context;
  const most = mostBodyBytes(env);
  const incoming = {
    head: req.raw,
    pathname,
    path: pathname + search,
    token: context.get('token'),
    ownId: context.get('ownId'),
  };
  const asked = await readRequest(env, incoming, () =>
    readBody(req.raw, env, most, variableOf('max_body_bytes')),
  );
  context.set('requestId', asked.errorOf.requestId);
  const hangUp = new HangUp();
  // Cloudflare drops a request whose caller hung up: nothing that waits for anything runs after that. `readBody` gives
  // back what its body held.
  req.raw.signal.addEventListener('abort', () => hangUp.happen());
  // The call is not awaited, so this function ends here and holds no payload while the answer runs.
  const attempted = callEngine(env, asked, hangUp, {
    open: async (relay, streamId, askedFor) =>
      openedResponse(await relay.open(streamId, askedFor.more, askedFor)),
    background: (work) => executionCtx.waitUntil(work),
  });
  return answer(env, asked, attempted, hangUp);
}
