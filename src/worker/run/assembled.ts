import { readPieces, readText } from '../../engine/client/types.ts';
import { continuationOf } from '../../moving/continuation.ts';
import { movePlan, routeOf } from '../../moving/plan.ts';
import {
  bounds,
  type EngineRequest,
  isEventStream,
  isObject,
  isRetryableStatus,
  jsonOrText,
  type MovePlan,
  withMembers,
} from '../../protocol/index.ts';
import { AssembledAnswer, PartsOfItsOwn, TooLong } from '../answers/assembled-answer.ts';
import type { Attempt } from './attempt.ts';
import { atWholeCharacter, NotContinued } from './continued.ts';
import { answerTooLarge, failureOfEngine } from './engine-failures.ts';
import { relayEvents } from './relay-events.ts';
import { identified, sendMovable } from './send-request.ts';
import { generatedTokens } from './usage.ts';

type Body = Record<string, unknown>;

const STREAMED = { stream: 'true', stream_options: '{"include_usage":true}' };

/**
 * Assembles the answer of a stored generation from what the engine streams, so that it can be continued elsewhere, and
 * continues here what an earlier attempt generated. Returns null if the engine should give the whole answer in one
 * piece, since such answers do not move, or since the engine does not stream this one.
 * @throws JobFailure
 */
export async function assembledAnswer(attempt: Attempt, request: EngineRequest): Promise<Body | null> {
  const plan = planOf(attempt, request);
  if (plan === null) return null;
  const assembly = new AssembledAnswer(routeOf(plan.path)!, attempt.partial, {
    model: modelOf(attempt, plan.rest.model),
    created: Math.floor(Date.parse(attempt.timestamp()) / 1000),
  });
  attempt.assembles(assembly);
  try {
    if (await streams(attempt, await askedOf(attempt, request, plan), assembly)) return assembly.answer();
  } catch (error) {
    if (error instanceof PartsOfItsOwn) attempt.idsAsking!.parses = true;
    else if (error instanceof TooLong) throw answerTooLarge();
    else if (!(error instanceof NotContinued)) throw error;
  }
  attempt.assembles(null);
  return null;
}

/** Returns how the answer can be moved; null: it is not moved. */
function planOf({ idsAsking }: Attempt, { method, path, body }: EngineRequest): MovePlan | null {
  if (idsAsking === null || idsAsking.engine === 'refuses' || idsAsking.parses) return null;
  if (method !== 'POST' || routeOf(path) === undefined || typeof body !== 'string') return null;
  if (body.length > bounds.MOVING_BODY_BYTES) return null;
  const asked = jsonOrText(body);
  // The result of a request for a stream is the stream itself, the caller of one that asks for ids gets them, and
  // engines refuse options of a stream without a stream.
  if (!isObject(asked) || asked.stream === true || asked.return_token_ids || asked.stream_options)
    return null;
  const plan = movePlan(path, withMembers(body, STREAMED));
  return typeof plan === 'string' ? null : identified(plan, idsAsking.identity);
}

/** Returns the model's name as the answer states it: the caller's own, or the engine's for an alias or no name. */
function modelOf({ modelAliases, servedModel }: Attempt, asked: unknown): unknown {
  return typeof asked === 'string' && !modelAliases.has(asked) ? asked : servedModel;
}

async function askedOf(attempt: Attempt, request: EngineRequest, plan: MovePlan): Promise<EngineRequest> {
  const { partial } = attempt;
  if (partial === null) return { ...request, body: withMembers(String(request.body), STREAMED) };
  const { ids, prompt_tokens: promptTokens } = partial;
  const rest = continuationOf({ plan, identity: {}, ids, promptTokens, stage: 'running' });
  return atWholeCharacter(attempt, { ...request, ...rest });
}

/**
 * Streams the engine's answer into the assembly.
 * @returns false: the engine refuses such a request, and gives the reason when asked for the answer in one piece
 * @throws JobFailure
 */
async function streams(
  attempt: Attempt,
  request: EngineRequest,
  assembly: AssembledAnswer,
): Promise<boolean> {
  const answered = await sendMovable(attempt, request);
  const { status, headers, body } = answered.answer;
  // The engine is overloaded, unless it only cannot generate the rest of an answer.
  if (isRetryableStatus(status) && attempt.partial === null)
    throw await failureOfEngine(attempt, status, jsonOrText(await readText(body)));
  if (status >= 300 || !isEventStream(headers) || typeof answered.moving === 'string') {
    await readPieces(body, () => false);
    return false;
  }
  await relayEvents(attempt, request, answered, assembly);
  attempt.generated(assembly.tokens?.made ?? generatedTokens(assembly.answer()));
  return true;
}
