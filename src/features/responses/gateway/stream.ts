import { readerOf } from '../../../gateway/auth/authorize.ts';
import { endsWithToken } from '../../../gateway/auth/tokens.ts';
import { HttpError } from '../../../gateway/errors.ts';
import { callResponses } from '../../../gateway/objects/calls.ts';
import { queueIdOf } from '../../../gateway/objects/ids.ts';
import type { GatewayContext } from '../../../gateway/routes/route.ts';
import { EVENT_STREAM } from '../../../protocol/index.ts';
import type { Streamed } from '../object/object.ts';
import { noResponse } from './errors.ts';

/** A question for events waits at most this long, ms; if it brings none, the reader gets a comment. */
const QUESTION_MS = 15_000;
/** A reader waits this long, ms, for a queue that restarts. */
const RESTART_MS = 30_000;
/** The pause after a call that failed, ms. */
const PAUSE_MS = 500;

const encoder = new TextEncoder();
const COMMENT = encoder.encode(': waiting\n\n');

/**
 * Answers with the events of a response in the background after a sequence number, until it is final. The reader alone
 * holds its place, so any number of them read at any pace.
 * @param after -1: from the first
 * @throws HttpError 400, 404
 */
export async function streamOf(context: GatewayContext, id: string, after: number): Promise<Response> {
  const { env } = context;
  const token = context.get('token');
  const viewer = readerOf(token, env);
  const queueId = queueIdOf(env, context.req.raw);
  const ask = (last: number, waitMs: number) =>
    callResponses(env, queueId, (responses) => responses.events(id, last, waitMs, viewer));
  const first = pageOf(await ask(after, 0), id);
  const body = bodyOf(first, (last) => ask(last, QUESTION_MS));
  return endsWithToken(token, env, new Response(body, { headers: { ...EVENT_STREAM, 'x-job-id': id } }));
}

type Page = Extract<Streamed, object>;

/** @throws HttpError 400, 404 where there is nothing to stream */
function pageOf(streamed: Streamed, id: string): Page {
  if (streamed === 'missing') throw noResponse(id);
  if (typeof streamed === 'object') return streamed;
  const why =
    streamed === 'not_streamed'
      ? 'This response was not created in the background with "stream": true, so it cannot be streamed.'
      : 'This response can no longer be streamed because its events are deleted 15 minutes after its end.';
  throw new HttpError(400, `${why} A GET without "stream" has the response.`);
}

/** Returns the body of a stream. @param ask returns what comes after a number, as soon as there is any */
function bodyOf(first: Page, ask: (last: number) => Promise<Streamed>): ReadableStream<Uint8Array> {
  let page: Page | null = first;
  let last = first.last;
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const next = page ?? (await patiently(() => ask(last)));
        page = null;
        // The response was deleted meanwhile.
        if (typeof next === 'string') return controller.close();
        last = next.last;
        if (next.text !== '') controller.enqueue(encoder.encode(next.text));
        if (next.is_over) controller.close();
        else if (next.text === '') controller.enqueue(COMMENT);
      },
    },
    { highWaterMark: 0 },
  );
}

/** Makes a call, and again while the queue restarts. @throws what the last one threw */
async function patiently<T>(call: () => Promise<T>): Promise<T> {
  const until = Date.now() + RESTART_MS;
  for (;;) {
    try {
      return await call();
    } catch (error) {
      if (!(error instanceof HttpError && error.status === 503) || Date.now() > until) throw error;
      await new Promise((done) => setTimeout(done, PAUSE_MS));
    }
  }
}
