import { MOST_TRACESTATE_CHARACTERS } from './trace-context.ts';

/**
 * The only headers of a caller that reach the engine. Others belong to a connection (hop-by-hop), to the gateway
 * (`authorization`, `cookie`, `host`) or to the way a body is written (`content-length`, `accept-encoding`).
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

/** The longest value of a header that reaches the engine, except `tracestate`. */
const MOST_CHARACTERS = 4096;

const VALUE = /^[\x20-\x7e]*$/;

/** Returns whether a header of a caller may be sent to an engine. @param name in any case */
export function isRequestHeader(name: string): boolean {
  return REQUEST_HEADERS.has(name.toLowerCase());
}

/**
 * Returns those of a caller's headers that the engine gets, with lower-case names; values beyond visible ASCII are left
 * out.
 */
export function requestHeaders(headers: Iterable<[string, string]>): Record<string, string> {
  const passed = [...headers].filter(
    ([name, value]) => isRequestHeader(name) && value.length <= mostCharacters(name) && VALUE.test(value),
  );
  return Object.fromEntries(passed.map(([name, value]) => [name.toLowerCase(), value]));
}

function mostCharacters(name: string): number {
  return name.toLowerCase() === 'tracestate' ? MOST_TRACESTATE_CHARACTERS : MOST_CHARACTERS;
}

/** Matches visible ASCII, which a header, a log line and an engine take as it is. */
const REQUEST_ID = /^[\x21-\x7e]{1,128}$/;

/** Matches ids out of which connectors between engines (vLLM's MoRIIO) would read the addresses to connect to. */
const ADDRESSES = /___(?:prefill|decode)_addr_/;

/** Returns whether an id that a caller chose may go to an engine; any other is replaced. */
export function isRequestId(text: string | undefined): text is string {
  return text !== undefined && REQUEST_ID.test(text) && !ADDRESSES.test(text);
}
