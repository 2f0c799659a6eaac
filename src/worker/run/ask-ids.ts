import { movePlan, routeOf } from '../../moving/plan.ts';
import { StopHold } from '../../moving/stop-hold.ts';
import { idsAsked } from '../../moving/token-ids.ts';
import {
  type EngineRequest,
  type Json,
  jsonOrText,
  type MovePlan,
  withMembers,
} from '../../protocol/index.ts';
import type { Moving } from './passed-events.ts';

const ASKED = { return_token_ids: 'true' };
const STOPS_SHOWN = { include_stop_str_in_output: 'true' };

/** A request whose answer may be moved. */
export interface MovableRequest {
  /** The request's body with the token ids asked for; every other byte is as it was. */
  body: Json;
  moving: Moving;
}

/** Returns the request as one whose answer may be moved, or the reason why the answer is not moved. */
export function askIds(request: EngineRequest, body: Json): MovableRequest | string {
  const plan = request.continues ? continuedPlan(request, body) : movePlan(request.path, body);
  if (typeof plan === 'string') return plan;
  if (routeOf(plan.path) === 'tokens') return withIds(plan, request, body);
  const text = typeof body === 'string' ? body : Buffer.from(body).toString();
  const isAsked =
    /"return_token_ids"\s*:\s*true/.test(text) && Object(jsonOrText(text)).return_token_ids === true;
  const from = request.continues ? idsAsked(jsonOrText(text)) : null;
  const added = { ...(!isAsked && ASKED), ...(StopHold.of(plan) !== null && STOPS_SHOWN) };
  const moving = { plan, isAsked, from, prompt: null };
  return { body: Object.keys(added).length === 0 ? body : withMembers(body, added), moving };
}

/** Handles a request that brings ids, and whose answer is ids. */
function withIds(plan: MovePlan, { continues }: EngineRequest, body: Json): MovableRequest {
  const prompt = idsAsked(jsonOrText(Buffer.from(body).toString()));
  return { body, moving: { plan, isAsked: true, from: continues ? prompt : null, prompt } };
}

/** Returns the plan of a continuation, whose request states the caller's own number of prompt tokens. */
function continuedPlan(request: EngineRequest, body: Json): MovePlan | string {
  const { kv_transfer_params: _, ...rest } = Object(jsonOrText(Buffer.from(body).toString()));
  // The plan does not depend on the length of the prompt.
  const short = {
    ...(Array.isArray(rest.prompt) && { prompt: [0] }),
    ...(Array.isArray(rest.token_ids) && { token_ids: [0] }),
  };
  const plan = movePlan(request.path, JSON.stringify({ ...rest, ...short }));
  return typeof plan === 'string' ? plan : { ...plan, first_prompt: request.continues!.prompt_tokens };
}
