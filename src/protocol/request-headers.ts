import { MOST_TRACESTATE_CHARACTERS } from './trace-context.ts';

/**
 * Headers of a caller that reach the engine, and no others: not what belongs to a connection (hop-by-hop), to the
 * gateway (`authorization`, `cookie`, `host`) or to the way a body is written (`content-length`, `accept-encoding`).
 * `content-type` travels beside them, as `content_type`.
 */
const REQUEST_HEADERS: ReadonlySet<string> = new Set([
  'accept',
  'anthropic-beta',
  'anthropic-version',
  'endpoint-load-metrics-format',
  'openai-beta',
  'traceparent',
  'tracestate',
  'x-data-parallel-rank',
  'x-request-id',
  'x-session-id',
  'x-vllm-priority',
]);

/** Longer values are no header of these. */
const MOST_CHARACTERS = 4096;

const VALUE = /^[\x20-\x7e]*$/;

/** Whether a header of a caller may be sent to an engine, by its name in any case. */
export function isRequestHeader(name: string): boolean {
  return REQUEST_HEADERS.has(name.toLowerCase());
}

/** Those of a caller's headers that its engine gets, with lower-case names; values beyond visible ASCII are left out. */
export function requestHeaders(headers: Iterable<[string, string]>): Record<string, string> {
  const passed = [...headers].filter(
    ([name, value]) => isRequestHeader(name) && value.length <= mostCharacters(name) && VALUE.test(value),
  );
  return Object.fromEntries(passed.map(([name, value]) => [name.toLowerCase(), value]));
}

function mostCharacters(name: string): number {
  return name.toLowerCase() === 'tracestate' ? MOST_TRACESTATE_CHARACTERS : MOST_CHARACTERS;
}

/** Visible ASCII: what a header, a log line and an engine take as it is. */
const REQUEST_ID = /^[\x21-\x7e]{1,128}$/;

/** Connectors between engines (vLLM's MoRIIO) read out of an id which addresses to connect to. */
const ADDRESSES = /___(?:prefill|decode)_addr_/;

/** Whether an id that a caller chose may go to an engine; any other is replaced. */
export function isRequestId(text: string | undefined): text is string {
  return text !== undefined && REQUEST_ID.test(text) && !ADDRESSES.test(text);
}
