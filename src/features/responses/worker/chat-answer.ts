import {
  type AnswerBody,
  type EngineAnswer,
  readPieces,
  readText,
  type TakePiece,
} from '../../../engine/client/types.ts';
import {
  CHAT_PATH,
  type EngineError,
  EventCutter,
  engineJson,
  eventData,
  isEventStream,
  isObject,
  messageOf,
  readEvent,
  readWholeAnswer,
  splitEvents,
} from '../../../protocol/index.ts';
import { EventMaker } from '../event-maker.ts';
import { eventText, type ResponseError } from '../response-object.ts';
import type { ResponseEvent } from '../said.ts';
import type { Fields } from '../types.ts';
import type { ChatRequest } from './chat-request.ts';

/** Translates the answer of a chat into a response. An answer that is an error passes as it is. */
export async function responseAnswer(answer: EngineAnswer, asked: ChatRequest): Promise<EngineAnswer> {
  if (answer.status >= 300) return answer;
  const { 'content-length': _, ...headers } = answer.headers;
  if (isEventStream(answer.headers))
    return { ...answer, headers, body: new TranslatedBody(answer.body, new EventTranslator(asked)) };
  const events = eventsOfWhole(await readText(answer.body), asked);
  // Some engines answer a request for a stream in one piece.
  const isStreamed = asked.chat.stream === true;
  const type = isStreamed ? 'text/event-stream; charset=utf-8' : 'application/json';
  const text = isStreamed ? eventTexts(events) : JSON.stringify(events.at(-1)!.response);
  return { ...answer, headers: { ...headers, 'content-type': type }, body: bodyOf(encoder.encode(text)) };
}

/** Makes an answer in one piece. */
export function jsonAnswer(status: number, value: unknown): EngineAnswer {
  const headers = { 'content-type': 'application/json' };
  return { status, headers, body: bodyOf(encoder.encode(JSON.stringify(value))) };
}

const encoder = new TextEncoder();
const decoder = new TextDecoder();

function eventsOfWhole(text: string, asked: ChatRequest): ResponseEvent[] {
  const chat = engineJson(text)?.value ?? text;
  const maker = makerFor(chat, asked);
  const { failed, isGivenUp } = readWholeAnswer(CHAT_PATH, chat);
  const events = maker.begin();
  if (failed !== null) return [...events, ...maker.fail(errorOf(failed))];
  events.push(...maker.chunk(chat));
  return [...events, ...(isGivenUp ? maker.fail(GIVEN_UP) : maker.end())];
}

function makerFor(chunk: unknown, { response, toolOf }: ChatRequest): EventMaker {
  const { model } = Object(chunk) as Fields;
  return new EventMaker({ ...response, ...(typeof model === 'string' && { model }) }, { next: 0, toolOf });
}

const GIVEN_UP: ResponseError = {
  code: 'server_error',
  message: 'the engine ended the generation before it was finished',
};

/** Returns an engine's error in the words of a response. */
function errorOf(error: EngineError): ResponseError {
  const { status } = error;
  const code = status === 429 ? 'rate_limit_exceeded' : status < 500 ? 'invalid_prompt' : 'server_error';
  return { code, message: messageOf(error) };
}

function eventTexts(events: readonly ResponseEvent[]): string {
  return events.map(eventText).join('');
}

/** Translates the events of a chat's stream, as their bytes come. */
class EventTranslator {
  readonly #asked: ChatRequest;
  readonly #cutter = new EventCutter();
  #maker: EventMaker | null = null;
  #isOver = false;

  constructor(asked: ChatRequest) {
    this.#asked = asked;
  }

  /** Takes a piece of the stream. @returns the events that it makes; null: none */
  push(piece: Uint8Array): Uint8Array | null {
    const whole = this.#cutter.push(piece);
    return whole === null ? null : bytesOf(this.#events(decoder.decode(whole)));
  }

  /** Ends the response, if the chat has come to its end; one that was cut off stays without. */
  end(): Uint8Array | null {
    const rest = this.#events(decoder.decode(this.#cutter.rest));
    const isWhole = !this.#isOver && this.#maker !== null && this.#maker.finishReason !== null;
    return bytesOf(isWhole ? [...rest, ...this.#maker!.end()] : rest);
  }

  #events(text: string): ResponseEvent[] {
    return splitEvents(text).flatMap((event) => (this.#isOver ? [] : this.#event(event)));
  }

  #event(event: string): ResponseEvent[] {
    const data = eventData(event);
    if (data === '[DONE]') return this.#over(this.#maker?.end() ?? []);
    const chunk = data === '' ? null : engineJson(data)?.value;
    const { failed, isGivenUp } = readEvent(event, 'openai');
    if (failed === null && !isObject(chunk)) return [];
    const begun = this.#maker === null ? this.#begin(chunk) : [];
    const maker = this.#maker!;
    if (failed !== null) return this.#over([...begun, ...maker.fail(errorOf(failed))]);
    const made = [...begun, ...maker.chunk(chunk)];
    return isGivenUp ? this.#over([...made, ...maker.fail(GIVEN_UP)]) : made;
  }

  #begin(chunk: unknown): ResponseEvent[] {
    this.#maker = makerFor(chunk, this.#asked);
    return this.#maker.begin();
  }

  #over(events: ResponseEvent[]): ResponseEvent[] {
    this.#isOver = true;
    return events;
  }
}

function bytesOf(events: readonly ResponseEvent[]): Uint8Array | null {
  return events.length === 0 ? null : encoder.encode(eventTexts(events));
}

/** A stream of a chat, as the stream of a response. */
class TranslatedBody implements AnswerBody {
  readonly #body: AnswerBody;
  readonly #translator: EventTranslator;

  constructor(body: AnswerBody, translator: EventTranslator) {
    this.#body = body;
    this.#translator = translator;
  }

  async eachPiece(take: TakePiece): Promise<void> {
    let isLeft = false;
    const give: TakePiece = (piece) => {
      const wanted = take(piece);
      if (wanted === false) isLeft = true;
      return wanted;
    };
    await readPieces(this.#body, (piece) => {
      const events = this.#translator.push(piece);
      return events === null ? undefined : give(events);
    });
    const rest = isLeft ? null : this.#translator.end();
    if (rest !== null) await give(rest);
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array, void, undefined> {
    for await (const piece of this.#body) {
      const events = this.#translator.push(piece);
      if (events !== null) yield events;
    }
    const rest = this.#translator.end();
    if (rest !== null) yield rest;
  }
}

function bodyOf(bytes: Uint8Array): AnswerBody {
  return {
    async *[Symbol.asyncIterator]() {
      yield bytes;
    },
  };
}
