import * as z from 'zod';

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
  const passed: Record<string, string> = {};
  for (const [given, value] of headers) {
    const name = given.toLowerCase();
    if (!REQUEST_HEADERS.has(name)) continue;
    const most = name === 'tracestate' ? MOST_TRACESTATE_CHARACTERS : MOST_CHARACTERS;
    if (value.length <= most && VALUE.test(value)) passed[name] = value;
  }
  return passed;
}

/** Matches ids of visible ASCII, which a header, a log line and an engine take as they are. */
const REQUEST_ID = /^[\x21-\x7e]{1,128}$/;

/** Matches ids out of which connectors between engines (vLLM's MoRIIO) would read the addresses to connect to. */
const ADDRESSES = /___(?:prefill|decode)_addr_/;

/** Returns whether an id that a caller chose may go to an engine; any other is replaced. */
export function isRequestId(text: string | undefined): text is string {
  return text !== undefined && REQUEST_ID.test(text) && !ADDRESSES.test(text);
}

/**
 * The longest `tracestate` that is passed on: W3C Trace Context (https://www.w3.org/TR/trace-context/) asks everybody to
 * pass on 512 characters.
 */
const MOST_TRACESTATE_CHARACTERS = 512;

/** Matches a `traceparent`; later versions may say more behind the same four fields. */
const TRACEPARENT = /^(?!ff)([\da-f]{2})-(?!0{32})([\da-f]{32})-(?!0{16})([\da-f]{16})-([\da-f]{2})(?:-.*)?$/;

/** The trace headers of a submission that a job keeps. */
export const TraceContext = z.object({
  /** A `traceparent` in the form of version 00. */
  traceparent: z.string().max(55),
  tracestate: z.string().max(MOST_TRACESTATE_CHARACTERS).optional(),
  /** Whether the job was submitted with others; it then has a trace of its own, linked to this one. */
  is_link: z.boolean().optional(),
});
export type TraceContext = z.infer<typeof TraceContext>;

/** A parsed `traceparent`. */
export interface TraceParent {
  /** 32 hexadecimal digits. */
  traceId: string;
  /** 16 hexadecimal digits. */
  spanId: string;
  /** Bit 0: sampled. */
  flags: number;
}

/** Reads a `traceparent`, or returns null if it is malformed, so that the trace begins anew. */
export function parseTraceparent(text: string): TraceParent | null {
  const [, version, traceId, spanId, flags] = TRACEPARENT.exec(text) ?? [];
  if (traceId === undefined || (version === '00' && text.length > 55)) return null;
  return { traceId, spanId: spanId!, flags: Number.parseInt(flags!, 16) };
}

export function writeTraceparent({ traceId, spanId, flags }: TraceParent): string {
  return `00-${traceId}-${spanId}-${flags.toString(16).padStart(2, '0')}`;
}

/** Reads the trace from a request's headers; undefined if they have none that is understood. */
export function traceContextOf(headers: { get(name: string): string | null }): TraceContext | undefined {
  const given = headers.get('traceparent');
  const parent = given === null ? null : parseTraceparent(given);
  if (parent === null) return undefined;
  const tracestate = headers.get('tracestate') ?? '';
  const isKept = tracestate !== '' && tracestate.length <= MOST_TRACESTATE_CHARACTERS;
  return { traceparent: writeTraceparent(parent), ...(isKept && { tracestate }) };
}
