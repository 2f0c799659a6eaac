import { newItem } from './create-body.ts';
import { type EndedResponse, type Fields, isFinal } from './types.ts';

/** Why a response failed, as its object says it: OpenAI's list of codes is closed. */
export interface ResponseError {
  code: 'server_error' | 'rate_limit_exceeded' | 'invalid_prompt';
  message: string;
}

/** The fields of a Response object that engines do not know, or know otherwise. */
const OWN = [
  'id',
  'created_at',
  'background',
  'store',
  'previous_response_id',
  'conversation',
  'metadata',
] as const;

/**
 * Returns the Response object of an engine with those fields of ours, and with those that clients compare with null,
 * of which vLLM leaves `error` out. @param ours a Response object
 */
export function withOwnFields(response: Fields, ours: Fields): Fields {
  const own = OWN.flatMap((name) => (ours[name] === undefined ? [] : [[name, ours[name]] as const]));
  const { error = null, incomplete_details = null } = response;
  return { ...response, error, incomplete_details, ...Object.fromEntries(own) };
}

/** Splits a Response object into what is stored of it. */
export function endedResponse(response: Fields): EndedResponse {
  const { output, status, ...body } = response;
  return {
    status: isFinal(String(status)) ? (status as EndedResponse['status']) : 'failed',
    body: JSON.stringify(body),
    output: Array.isArray(output) ? output.map((item) => newItem(item as Fields)) : [],
  };
}

/** Writes an event of the Responses API. */
export function eventText(data: Fields): string {
  return `event: ${String(data.type)}\ndata: ${JSON.stringify(data)}\n\n`;
}

/** Returns the object that a text is the JSON of; null: it is not. */
export function jsonObject(text: string): Fields | null {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Fields) : null;
  } catch {
    return null;
  }
}

/** The fields of a request that its Response object repeats, with what it has for those that were left out. */
const REPEATED: Readonly<Record<string, unknown>> = {
  instructions: null,
  max_output_tokens: null,
  max_tool_calls: null,
  model: null,
  parallel_tool_calls: true,
  prompt_cache_key: undefined,
  reasoning: undefined,
  safety_identifier: undefined,
  service_tier: undefined,
  temperature: null,
  text: undefined,
  tool_choice: 'auto',
  tools: [],
  top_logprobs: undefined,
  top_p: null,
  truncation: 'disabled',
  user: undefined,
};

/** Returns the Response object of a request that no engine has answered yet, without status and output. */
export function begunResponse(request: Fields, own: Fields, nowMs: number): Fields {
  const repeated = Object.entries(REPEATED).map(([name, usual]) => [name, request[name] ?? usual] as const);
  return {
    ...Object.fromEntries(repeated),
    object: 'response',
    created_at: Math.floor(nowMs / 1000),
    error: null,
    incomplete_details: null,
    usage: null,
    ...own,
  };
}
