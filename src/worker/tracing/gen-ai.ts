import type { EngineCall } from '../../engine/client/types.ts';
import type { Usage } from '../../protocol/index.ts';
import { fieldsOf, jsonOrText, plainPath, routeLike } from '../../protocol/index.ts';
import type { Attributes } from './span.ts';

/**
 * The attributes that OpenTelemetry's conventions for generative AI ask for in a request to an engine
 * (open-telemetry/semantic-conventions-genai, all in development). They never hold the messages, which are personal.
 */

/** A longer body is not parsed for its parameters. */
const MOST_PARSED_BYTES = 256 * 1024;

export interface GenAiRequest {
  operation: string;
  model: string | null;
  attributes: Attributes;
}

export function genAiRequest({
  method,
  path,
  body,
}: Pick<EngineCall, 'method' | 'path' | 'body'>): GenAiRequest {
  const operation = operationOf(path);
  const fields = parsedFields(body);
  const model = typeof fields.model === 'string' ? fields.model : null;
  const numbers = ['max_tokens', 'temperature', 'top_p', 'top_k', 'seed'].flatMap((name) =>
    typeof fields[name] === 'number' ? [[`gen_ai.request.${name}`, fields[name]] as const] : [],
  );
  return {
    operation,
    model,
    attributes: {
      'gen_ai.operation.name': operation,
      ...(model !== null && { 'gen_ai.request.model': model }),
      ...(typeof fields.stream === 'boolean' && { 'gen_ai.request.stream': fields.stream }),
      ...Object.fromEntries(numbers),
      'http.request.method': method,
      'url.path': pathOf(path),
    },
  };
}

export function genAiUsage(usage: Usage | null): Attributes {
  if (usage === null) return {};
  const { prompt_tokens, completion_tokens, cached_tokens, reasoning_tokens, model } = usage;
  return {
    'gen_ai.usage.input_tokens': prompt_tokens,
    'gen_ai.usage.output_tokens': completion_tokens,
    ...(cached_tokens !== undefined && { 'gen_ai.usage.cache_read.input_tokens': cached_tokens }),
    ...(reasoning_tokens !== undefined && { 'gen_ai.usage.reasoning.output_tokens': reasoning_tokens }),
    ...(model !== undefined && { 'gen_ai.response.model': model }),
  };
}

/** Returns a path without its query. */
export function pathOf(path: string): string {
  return path.split('?', 1)[0]!;
}

/** Returns the operation of a route; a route without one in the table of routes is its own: `rerank`. */
function operationOf(path: string): string {
  return routeLike(path)?.operation ?? plainPath(path).split('/').at(-1) ?? 'request';
}

function parsedFields(body: EngineCall['body']): Record<string, unknown> {
  if (body === undefined || body.length > MOST_PARSED_BYTES) return {};
  return fieldsOf(jsonOrText(typeof body === 'string' ? body : new TextDecoder().decode(body)));
}
