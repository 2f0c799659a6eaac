import { type EngineAnswer, type EngineCall, readPieces } from '../../../engine/client/types.ts';
import { CHAT_PATH, engineJson, fieldsOf, isObject, type ModelCard } from '../../../protocol/index.ts';
import type { EngineLayer } from '../../../worker/ports.ts';
import { jsonAnswer, responseAnswer } from './chat-answer.ts';
import { type ChatRequest, chatRequestOf } from './chat-request.ts';
import { Unsayable } from './unsayable.ts';

const PATH = '/v1/responses';

/** The statuses with which engines answer for a route that they do not have. */
const LACKS_ROUTE: ReadonlySet<number> = new Set([404, 405, 501]);

/** The owners that `/v1/models` names at engines with chat alone, or with a route that OpenAI's clients cannot read. */
const OWNERS_WITH_CHAT: ReadonlySet<unknown> = new Set(['llamacpp']);

type Request = (call: EngineCall) => Promise<EngineAnswer>;

/**
 * Serves `/v1/responses` at engines that have chat completions alone: the request is translated into a chat, and the
 * answer back.
 *
 * The layer knows of the route at this engine:
 * - `untried` → `has` (it answered), `lacks` (it says that it does not have the route)
 * - any → `untried`, or `lacks` if the engine's models say so (the engine may be another one)
 */
export class ChatAlone implements EngineLayer {
  readonly #isDescribed: boolean;
  #route: 'untried' | 'has' | 'lacks' = 'untried';

  /** @param isDescribed whether the engine is known to have no such route, or none that OpenAI's clients can read */
  constructor(isDescribed: boolean) {
    this.#isDescribed = isDescribed;
  }

  engineIs(cards: readonly ModelCard[]): void {
    this.#route = cards.some((card) => OWNERS_WITH_CHAT.has(fieldsOf(card).owned_by)) ? 'lacks' : 'untried';
  }

  over(engine: Parameters<EngineLayer['over']>[0]): ReturnType<EngineLayer['over']> {
    const request: Request = (call) => engine.request(call);
    return {
      isHealthy: (timeoutMs) => engine.isHealthy(timeoutMs),
      // Any other request takes no further turn of the event loop, since a caller waits for each turn.
      request: (call) => (isForResponse(call) ? this.#respond(request, call) : request(call)),
    };
  }

  async #respond(request: Request, call: EngineCall): Promise<EngineAnswer> {
    if (this.#isDescribed || this.#route === 'lacks') return await asChat(request, call);
    const answer = await request(call);
    if (this.#route === 'untried') {
      this.#route = LACKS_ROUTE.has(answer.status) && !(await hasRoute(request, call)) ? 'lacks' : 'has';
      if (this.#route === 'lacks') {
        await readPieces(answer.body, () => false);
        return await asChat(request, call);
      }
    }
    return answer;
  }
}

function isForResponse({ method, path }: EngineCall): boolean {
  return method === 'POST' && path.startsWith(PATH) && /^\/?(?:\?|$)/.test(path.slice(PATH.length));
}

/**
 * Asks whether the engine has the route: engines also answer 404 for a model that they do not know, but only one
 * without the route does so for a body that names none.
 */
async function hasRoute(request: Request, { path, signal }: EngineCall): Promise<boolean> {
  const { status, body } = await request({ method: 'POST', path, signal, body: '{}' });
  await readPieces(body, () => false);
  return !LACKS_ROUTE.has(status);
}

async function asChat(request: Request, call: EngineCall): Promise<EngineAnswer> {
  const text = typeof call.body === 'string' ? call.body : new TextDecoder().decode(call.body);
  const body = engineJson(text)?.value;
  // The engine itself says what is wrong with a body that is no object.
  if (!isObject(body)) return await request({ ...call, path: CHAT_PATH });
  let asked: ChatRequest;
  try {
    asked = chatRequestOf(body);
  } catch (error) {
    if (!(error instanceof Unsayable)) throw error;
    const { message, param } = error;
    return jsonAnswer(400, { error: { message, type: 'invalid_request_error', param, code: 'unsupported' } });
  }
  const chat = await request({ ...call, path: CHAT_PATH, body: JSON.stringify(asked.chat) });
  return await responseAnswer(chat, asked);
}
