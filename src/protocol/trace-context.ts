import * as z from 'zod';

/** W3C Trace Context (https://www.w3.org/TR/trace-context/), which says what trace a request belongs to. */

/** The longest `tracestate` that is passed on: everybody has to pass on 512 characters. */
export const MOST_TRACESTATE_CHARACTERS = 512;

/** Matches a `traceparent`; later versions may say more behind the same four fields. */
const TRACEPARENT = /^(?!ff)([\da-f]{2})-(?!0{32})([\da-f]{32})-(?!0{16})([\da-f]{16})-([\da-f]{2})(?:-.*)?$/;

/** The trace headers of a submission that a job keeps. */
export const TraceContext = z.object({
  /** A `traceparent` in the form of version 00. */
  traceparent: z.string().max(55),
  tracestate: z.string().max(MOST_TRACESTATE_CHARACTERS).optional(),
  /** Whether the job was submitted with others: its trace is one of its own, linked to this. */
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
