import {
  beginsObject,
  fieldsOf,
  type Json,
  jsonFields,
  parseJsonBytes,
  withMemberAt,
} from '../../protocol/index.ts';

/**
 * vLLM's first version that reports token ids of any answer. vLLM has ignored fields that it does not know since much
 * earlier versions.
 */
const TELLS_IDS = [0, 10, 2];

/**
 * Tells whether the worker knows, before its first request, that an engine takes the fields by which it asks for usage
 * and token ids: the engine is vLLM, of a version that has them.
 * @param cards the engine's cards of its models
 * @param version as the engine reports it
 */
export function takesFields(cards: readonly object[], version: string | null): boolean {
  const isVllm = cards.some((card) => fieldsOf(card).owned_by === 'vllm');
  const numbers = /^v?(\d+)\.(\d+)\.(\d+)/
    .exec(version ?? '')
    ?.slice(1)
    .map(Number);
  if (!isVllm || numbers === undefined) return false;
  const at = numbers.findIndex((number, index) => number !== TELLS_IDS[index]);
  return at < 0 || numbers[at]! > TELLS_IDS[at]!;
}

/** Records whether this engine takes requests for the usage of streams. An engine that refuses is not asked again. */
export interface UsageAsking {
  engine: 'untried' | 'takes' | 'refuses';
}

/** Records whether this engine takes requests for token ids. */
export interface IdsAsking extends UsageAsking {
  /**
   * True once the engine has streamed parts that only it can put together: it is asked for the answers of stored jobs
   * in one piece (run/assembled.ts).
   */
  parses?: boolean;
}

/**
 * Returns the body with `stream_options.include_usage` put in, every other byte as it was. Returns null if the body
 * asks for no stream, asks for usage itself, or has options that would change its other events too.
 */
export function askUsage(body: Json): Json | null {
  try {
    const bytes = typeof body === 'string' ? Buffer.from(body) : body;
    const { stream, stream_options: options } = fieldsIn(bytes, ['stream', 'stream_options']);
    if (stream === undefined || parseJsonBytes(stream) !== true) return null;
    if (options !== undefined && !mayBeAsked(options)) return null;
    return withMemberAt(body, ['stream_options', 'include_usage'], 'true');
  } catch {
    // The engine reports the fault of the body.
    return null;
  }
}

function mayBeAsked(options: Uint8Array): boolean {
  if (!beginsObject(options)) return parseJsonBytes(options) === null;
  const { include_usage, continuous_usage_stats } = fieldsIn(options, [
    'include_usage',
    'continuous_usage_stats',
  ]);
  // Continuous stats take effect only with `include_usage`, and then in every event.
  if (continuous_usage_stats !== undefined) return false;
  return include_usage === undefined || parseJsonBytes(include_usage) !== true;
}

function fieldsIn<Name extends string>(json: Uint8Array, names: readonly Name[]) {
  return jsonFields(json, names, Number.POSITIVE_INFINITY);
}
