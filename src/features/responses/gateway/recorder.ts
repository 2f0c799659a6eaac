import { EventCutter, engineMessage, eventData, splitEvents } from '../../../protocol/index.ts';
import {
  endedResponse,
  eventText,
  jsonObject,
  type ResponseError,
  withOwnFields,
} from '../response-object.ts';
import { type ResponseEvent, Said } from '../said.ts';
import { type EndedResponse, type Fields, isFinal } from '../types.ts';

/** The actions of the gateway while the answer of an engine goes to the caller. */
export interface Recording {
  /** The fields that each Response object of the answer gets, since the engine does not know them. */
  fields: Fields;
  /** Stores the end of the response, before the caller reads of it. */
  keep(ended: EndedResponse): Promise<void>;
  /** Says whether the caller has left, which breaks off the answer. */
  isLeft(): boolean;
  /** Is called if the answer ends without a response. */
  lost(): Promise<void>;
}

/** Matches events that hold a whole Response object. */
const HAS_RESPONSE =
  /^(?:event: [^\n]*\n)?data: \{(?=[^\n]*"type": ?"response\.(?:created|queued|in_progress|completed|incomplete|failed)")/;

const encoder = new TextEncoder();

/** Returns an engine's answer with the response's own id and fields; its end is stored before the caller reads it. */
export async function recorded(answer: Response, recording: Recording): Promise<Response> {
  if (!answer.ok || answer.body === null) {
    await recording.lost();
    return answer;
  }
  const isStream = answer.headers.get('content-type')?.startsWith('text/event-stream') ?? false;
  if (isStream) return new Response(recordedStream(answer.body, recording), answer);
  const text = await answer.text();
  const response = jsonObject(text);
  const headers = new Headers(answer.headers);
  headers.delete('content-length');
  if (response === null || typeof response.status !== 'string') {
    await recording.lost();
    return new Response(text, { status: answer.status, headers });
  }
  const whole = wholeOf(response, recording);
  if (isFinal(response.status)) await recording.keep(endedResponse(whole));
  else await recording.lost();
  return new Response(JSON.stringify(whole), { status: answer.status, headers });
}

/** Returns a Response object with the fields that its engine leaves out: vLLM does not say when it was completed. */
function wholeOf(response: Fields, { fields }: Recording): Fields {
  const { status, completed_at = Math.floor(Date.now() / 1000) } = response;
  return withOwnFields({ ...response, ...(status === 'completed' && { completed_at }) }, fields);
}

/**
 * Passes an engine's stream on. One that breaks off after its beginning ends with `response.failed` instead of an error
 * event or a broken connection: nothing else tells a caller of this API that its response is over. It has the output
 * so far.
 */
function recordedStream(body: ReadableStream<Uint8Array>, recording: Recording): ReadableStream<Uint8Array> {
  const reader = body.getReader();
  const events = new RecordedEvents(recording);
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        for (;;) {
          const { value, done, error } = await reader.read().then(
            (read) => ({ ...read, error: null }),
            (error: unknown) => ({ value: undefined, done: true, error }),
          );
          const passed = done ? await events.end(error) : await events.pass(value!);
          if (passed.byteLength > 0) controller.enqueue(passed);
          if (done) return error !== null && !events.hasBegun ? controller.error(error) : controller.close();
          if (passed.byteLength > 0) return;
        }
      },
      async cancel(reason) {
        await reader.cancel(reason);
        await events.left();
      },
    },
    { highWaterMark: 0 },
  );
}

const NOTHING = new Uint8Array();
const NUMBER = '"sequence_number":';
const BROKE_OFF = 'The engine or its worker ended in the middle of the response.';

/** Matches an event that says that the stream broke off. */
const IS_ERROR = /^(?:event: error\n|data: \{[^\n]*"type": ?"error")/;

/** The events of an answer, as its caller gets them. */
class RecordedEvents {
  readonly #recording: Recording;
  readonly #cutter = new EventCutter();
  readonly #decoder = new TextDecoder();
  /** The sequence number of the next event. */
  #next = 0;
  /** The response as it began; null: it has not. */
  #begun: Fields | null = null;
  /** The output so far: one that breaks off leaves it. */
  readonly #said = new Said();
  #error = BROKE_OFF;
  #isOver = false;

  constructor(recording: Recording) {
    this.#recording = recording;
  }

  /** Whether the caller knows the response. */
  get hasBegun(): boolean {
    return this.#begun !== null;
  }

  /** Takes a piece of the stream. @returns the events that end in it */
  async pass(piece: Uint8Array): Promise<Uint8Array> {
    const whole = this.#cutter.push(piece);
    if (whole === null) return NOTHING;
    const text = this.#decoder.decode(whole);
    // Most pieces are deltas, whose bytes stay as they are.
    if (!text.includes('"response":') && !text.includes('error')) {
      this.#count(text);
      for (const event of splitEvents(text)) this.#hear(event);
      return whole;
    }
    const passed: string[] = [];
    for (const event of splitEvents(text)) passed.push(await this.#one(event));
    return encoder.encode(passed.join(''));
  }

  /** Ends the stream. @returns what the caller gets of it yet @param error what broke it; null: nothing did */
  async end(error: unknown): Promise<Uint8Array> {
    if (this.#isOver) return NOTHING;
    this.#isOver = true;
    if (this.#recording.isLeft()) {
      await this.#recording.lost();
      return NOTHING;
    }
    if (this.#begun === null) {
      await this.#recording.lost();
      return error === null ? this.#cutter.rest : NOTHING;
    }
    const response = {
      ...this.#begun,
      status: 'failed',
      error: { code: 'server_error', message: this.#error } satisfies ResponseError,
      output: this.#said.outputNow('incomplete'),
    };
    await this.#recording.keep(endedResponse(response));
    return encoder.encode(eventText({ type: 'response.failed', sequence_number: this.#next, response }));
  }

  /** The caller has left. */
  async left(): Promise<void> {
    if (!this.#isOver) await this.#recording.lost();
    this.#isOver = true;
  }

  /** Notes the last sequence number in a text, if it has one. */
  #count(text: string): void {
    const at = text.lastIndexOf(NUMBER);
    if (at >= 0) this.#next = Number.parseInt(text.slice(at + NUMBER.length), 10) + 1;
  }

  #hear(event: string): void {
    const data = jsonObject(eventData(event));
    if (typeof data?.type === 'string') this.#said.push(data as ResponseEvent);
  }

  async #one(event: string): Promise<string> {
    if (this.#begun !== null && !this.#isOver && IS_ERROR.test(event)) {
      const { message, error } = jsonObject(eventData(event)) ?? {};
      this.#error = engineMessage({ error, message }) ?? BROKE_OFF;
      return '';
    }
    this.#count(event);
    if (!HAS_RESPONSE.test(event)) {
      this.#hear(event);
      return event;
    }
    const data = jsonObject(eventData(event));
    const response = Object(data?.response) as Fields;
    if (data === null) return event;
    const whole = wholeOf(response, this.#recording);
    this.#begun ??= whole;
    if (!isFinal(String(response.status))) return eventText({ ...data, response: whole });
    if (!this.#isOver) await this.#recording.keep(endedResponse(whole));
    this.#isOver = true;
    // vLLM names the end of every response "completed".
    return eventText({ ...data, type: `response.${String(response.status)}`, response: whole });
  }
}
