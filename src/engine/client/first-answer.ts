import { type Clock, sleep, withTimeout } from '../../process/clock.ts';
import { engineMessage, engineRoute, fieldsOf, jsonOrText } from '../../protocol/index.ts';
import { QUESTIONS } from './hang.ts';
import { type EngineClient, readText } from './types.ts';

/** Why an engine that says it is healthy cannot serve. */
export interface FirstProblem {
  /** The problem for people: a clause. */
  problem: string;
  advice: string;
}

/** The id under which the engine gets the request. */
export const FIRST_REQUEST = 'first';

/** The pause before an engine that says it cannot answer now is asked again, ms. */
const AGAIN_AFTER_MS = 1000;

const LOOK_INTO_LOG = 'Look into its log.';

/**
 * Asks the engine for one token, or for what it makes in place of tokens: an engine may be healthy and fail with every
 * request. A refusal that says that the engine does not have a route is an answer too. Never throws.
 * @param model the name to ask for; left out: the engine chooses
 * @param limitMs the time limit: an engine may compile for minutes with its first request
 * @returns null: the engine answers
 */
export async function askForFirstAnswer(
  { engine, clock }: { engine: Pick<EngineClient, 'request'>; clock: Clock },
  model: string | undefined,
  limitMs: number,
): Promise<FirstProblem | null> {
  let isBusy = false;
  const askUntilFree = async (signal: AbortSignal) => {
    for (;;) {
      const found = await askAll(engine, model, signal);
      if (found !== 'busy') return found;
      isBusy = true;
      await sleep(clock, AGAIN_AFTER_MS, signal);
      signal.throwIfAborted();
    }
  };
  try {
    return await withTimeout(clock, limitMs, askUntilFree);
  } catch (error) {
    const problem = `${isBusy ? 'it said 503, and that it cannot answer now: ' : ''}${(error as Error).message}`;
    return { problem, advice: LOOK_INTO_LOG };
  }
}

/** Asks by one route after the other, until one answers. @returns `busy`: the engine says that it cannot answer now */
async function askAll(
  engine: Pick<EngineClient, 'request'>,
  model: string | undefined,
  signal: AbortSignal,
): Promise<FirstProblem | 'busy' | null> {
  let first: FirstProblem | 'busy' | null = null;
  for (const { path, body } of QUESTIONS) {
    const call = {
      method: 'POST',
      path,
      body: JSON.stringify({ model, ...body }),
      requestId: FIRST_REQUEST,
      signal,
    };
    const answer = await engine.request(call);
    const found = problemOf(path, answer.status, await readText(answer.body));
    if (found === null) return null;
    if (found !== 'absent') first ??= found;
  }
  return first;
}

/** @returns `absent`: the engine does not have the route, or not for this model; null: it has answered */
function problemOf(path: string, status: number, text: string): FirstProblem | 'absent' | 'busy' | null {
  const asked = `POST ${path}`;
  if (status === 401 || status === 403)
    return {
      problem: `it wants another key: ${asked} is ${status}`,
      advice: 'Set ENGINE_API_KEY to its key.',
    };
  if (status === 429) return null;
  if (status === 503) return 'busy';
  if ((status >= 300 && status < 500) || status === 501) return 'absent';
  const body = jsonOrText(text);
  if (status >= 500) {
    const message = engineMessage(body);
    return { problem: `${asked} is ${status}${message ? `: ${message}` : ''}`, advice: LOOK_INTO_LOG };
  }
  const list = fieldsOf(body)[engineRoute(path)?.list ?? ''];
  if (Array.isArray(list) && list.length > 0) return null;
  return { problem: `${asked} is ${status}, and no answer of an engine`, advice: LOOK_INTO_LOG };
}
