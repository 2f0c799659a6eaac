import { beginsObject, type Json, jsonFields, parseJsonBytes, withMemberAt } from '../../protocol/index.ts';

/** Whether this engine takes requests for the usage of streams. One that refuses is not asked again. */
export interface UsageAsking {
  engine: 'untried' | 'takes' | 'refuses';
}

/** The same of an engine that is asked for token ids. */
export interface IdsAsking extends UsageAsking {
  /** It has told parts of answers that only it makes one piece of: stored jobs ask it for that (run/assembled.ts). */
  parses?: boolean;
}

/**
 * The body with `stream_options.include_usage` put in, every other byte as it was. Null: there is nothing to put in. It
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
    // The engine reports what is wrong with it.
    return null;
  }
}

function mayBeAsked(options: Uint8Array): boolean {
  if (!beginsObject(options)) return parseJsonBytes(options) === null;
  const { include_usage, continuous_usage_stats } = fieldsIn(options, [
    'include_usage',
    'continuous_usage_stats',
  ]);
  // Continuous stats take effect only with the other one, and then in every event.
  if (continuous_usage_stats !== undefined) return false;
  return include_usage === undefined || parseJsonBytes(include_usage) !== true;
}

function fieldsIn<Name extends string>(json: Uint8Array, names: readonly Name[]) {
  return jsonFields(json, names, Number.POSITIVE_INFINITY);
}
