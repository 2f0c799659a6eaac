import { EVENT_STREAM } from '../protocol/index.ts';
import type { SettlementsAnswer } from '../queue/rpc.ts';
import { HttpError, retryAfter } from './errors.ts';

/**
 * How long one call of the queue waits for news, ms. A write follows each call, which shows whether the reader is gone.
 */
const WAIT_MS = 10_000;
/** Between two calls that had news, ms: what settles meanwhile comes together. */
const PAUSE_MS = 100;
/** A reader that takes nothing for this long is dropped, ms. It may come back and go on. */
const STUCK_MS = 60_000;

export interface EventPorts {
  ask(after: number | null, waitMs: number): Promise<SettlementsAnswer>;
  sleep(ms: number): Promise<void>;
}

/**
 * Settlements as server-sent events, each with its number as id. The stream is held here; the queue is asked for what
 * comes after the last number, so a reader that comes back with `Last-Event-ID` misses nothing.
 * @param after the last number that the reader knows; null: only what comes
 * @throws HttpError 429 when too many read already
 */
export async function settlementEvents(
  after: number | null,
  signal: AbortSignal,
  ports: EventPorts,
): Promise<Response> {
  const first = await ports.ask(after, 0);
  if (!first.ok) throw tooMany(first.most);
  const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>();
  void pump(writable.getWriter(), first, signal, ports);
  return new Response(readable, { headers: EVENT_STREAM });
}

/** Until the reader is gone, or the queue does not answer: then the stream ends, and the reader comes back. */
async function pump(
  writer: WritableStreamDefaultWriter<Uint8Array>,
  first: Extract<SettlementsAnswer, { ok: true }>,
  signal: AbortSignal,
  ports: EventPorts,
): Promise<void> {
  const encoder = new TextEncoder();
  const write = async (text: string) => {
    const written = writer.write(encoder.encode(text)).then(() => true);
    if (!(await Promise.race([written, ports.sleep(STUCK_MS)]))) throw new Error('the reader takes nothing');
  };
  try {
    await write('retry: 1000\n');
    for (let found = first; !signal.aborted; ) {
      await write(eventsOf(found));
      if (found.settlements.length > 0) await ports.sleep(PAUSE_MS);
      const next = await ports.ask(found.up_to, WAIT_MS);
      if (!next.ok) throw tooMany(next.most);
      found = next;
    }
    await writer.close();
  } catch (error) {
    await writer.abort(error).catch(() => {});
  }
}

/** A number without an event is kept by readers too: one that comes back goes on from it. */
function eventsOf({ missed, settlements, up_to }: Extract<SettlementsAnswer, { ok: true }>): string {
  const events = settlements.map(({ n, ...settlement }) => `id: ${n}\n${event('settled', settlement)}`);
  // Without an id: what follows it is not heard yet.
  if (missed !== null) events.unshift(event('gap', { reason: REASONS[missed] }));
  if (settlements.at(-1)?.n !== up_to) events.push(`id: ${up_to}\n: keep-alive\n\n`);
  return events.join('');
}

const REASONS = {
  forgotten: 'jobs that were settled after the last event are forgotten by now (QUEUE_RETENTION_SECONDS)',
  unknown: 'the last event is not one of this queue; its state was replaced',
};

function event(type: string, data: object): string {
  return `event: ${type}\ndata: ${JSON.stringify(data)}\n\n`;
}

function tooMany(most: number): HttpError {
  const message = `${most} read the settlements already, and no more may. Try again later.`;
  return new HttpError(429, message, 'too_many_readers', retryAfter(10));
}
