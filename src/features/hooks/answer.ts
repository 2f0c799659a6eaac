import { FilterRefusal } from '../../asking/filters.ts';
import { dialectOf, EventTexts, engineJson, errorEvents } from '../../protocol/index.ts';
import { type AskHook, HeldEvents } from './held-events.ts';
import { judged, kindOfType } from './kind.ts';
import { seeWhole } from './whole.ts';

/** The parts that the filter of an answer needs. */
export interface AnswerParts {
  ask: AskHook;
  /** The characters of a stream that are held back. */
  hold: number;
  /** The path on the engine, which decides the form of an error; null: unknown. */
  path: string | null;
  requestId: string;
}

/**
 * Returns an answer as a hook leaves it. An error and what is no text, such as audio, pass as they are. Where the
 * content type does not say what it is, the bytes do.
 * @throws FilterRefusal for a whole answer; a stream ends with an error event
 */
export async function seenAnswer(response: Response, parts: AnswerParts): Promise<Response> {
  if (!response.ok || response.body === null) return response;
  const told = kindOfType(response.headers.get('content-type'));
  const { kind, body } = told === null ? await judged(response.body) : { kind: told, body: response.body };
  if (kind === 'bytes') return told === null ? withBody(response, body) : response;
  if (kind === 'events') return withBody(response, seenStream(body, parts));
  const bytes = new Uint8Array(await new Response(body).arrayBuffer());
  const text = new TextDecoder().decode(bytes);
  const value = kind === 'json' ? engineJson(text)?.value : undefined;
  if (typeof value === 'object' && value !== null)
    return withBody(response, (await seeWhole(value, parts.ask)) ? encoded(JSON.stringify(value)) : bytes);
  // JSON of a text alone, and what says that it is JSON and is none, are seen as they are written.
  const whole = { text };
  return withBody(response, (await seeWhole(whole, parts.ask)) ? encoded(whole.text) : bytes);
}

function withBody(response: Response, body: Uint8Array<ArrayBuffer> | ReadableStream<Uint8Array>): Response {
  const { status } = response;
  const headers = new Headers(response.headers);
  headers.delete('content-length');
  return new Response(body, { status, headers });
}

const encoder = new TextEncoder();

function encoded(text: string): Uint8Array<ArrayBuffer> {
  return encoder.encode(text) as Uint8Array<ArrayBuffer>;
}

/** Passes a stream on as the hook leaves it. One that breaks off breaks off behind what the hook has seen. */
function seenStream(body: ReadableStream<Uint8Array>, parts: AnswerParts): ReadableStream<Uint8Array> {
  const reader = body.getReader();
  const held = new HeldEvents(parts.hold, parts.ask);
  const texts = new EventTexts();
  let broken: { error: unknown } | null = null;
  /** Returns the next text, and whether it is the last. */
  const next = async (): Promise<{ text: string; isLast: boolean }> => {
    let text = '';
    try {
      const { value, done } = await reader.read().catch((error: unknown) => {
        broken = { error };
        return { value: undefined, done: true };
      });
      // An event that breaks off in its middle is dropped.
      const events = value === undefined ? (broken === null ? texts.end() : []) : texts.push(value);
      for (const event of events) text += await held.push(event);
      return { text: done ? text + (await held.end()) : text, isLast: done };
    } catch (error) {
      if (!(error instanceof FilterRefusal)) throw error;
      broken = null;
      void reader.cancel(error).catch(() => {});
      const dialect = dialectOf(parts.path ?? '');
      return { text: text + errorEvents(error, dialect, parts.requestId), isLast: true };
    }
  };
  let isOver = false;
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        while (!isOver) {
          const { text, isLast } = await next();
          isOver = isLast;
          if (text === '') continue;
          controller.enqueue(encoder.encode(text));
          return;
        }
        if (broken !== null) controller.error(broken.error);
        else controller.close();
      },
      cancel: (reason) => reader.cancel(reason),
    },
    { highWaterMark: 0 },
  );
}
