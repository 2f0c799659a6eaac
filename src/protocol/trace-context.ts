import * as z from 'zod';

/** W3C Trace Context (https://www.w3.org/TR/trace-context/): which trace a request belongs to. */

/** A longer `tracestate` is dropped: 512 characters are what everybody has to pass on. */
export const MOST_TRACESTATE_CHARACTERS = 512;

/** Later versions may say more behind the same four fields. */
const TRACEPARENT = /^(?!ff)([\da-f]{2})-(?!0{32})([\da-f]{32})-(?!0{16})([\da-f]{16})-([\da-f]{2})(?:-.*)?$/;

/** What a job keeps of the headers that came with its submission. */
export const TraceContext = z.object({
  /** In the form of version 00. */
  traceparent: z.string().max(55),
  tracestate: z.string().max(MOST_TRACESTATE_CHARACTERS).optional(),
  /** It was submitted with others: its trace is one of its own, linked to this. */
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

/** Null: it is malformed, and the trace begins anew. */
export function parseTraceparent(text: string): TraceParent | null {
  const [, version, traceId, spanId, flags] = TRACEPARENT.exec(text) ?? [];
  if (traceId === undefined || (version === '00' && text.length > 55)) return null;
  return { traceId, spanId: spanId!, flags: Number.parseInt(flags!, 16) };
}

export function writeTraceparent({ traceId, spanId, flags }: TraceParent): string {
  return `00-${traceId}-${spanId}-${flags.toString(16).padStart(2, '0')}`;
}

/** What a request's headers say; undefined: nothing that can be understood. */
export function traceContextOf(headers: { get(name: string): string | null }): TraceContext | undefined {
  const given = headers.get('traceparent');
  const parent = given === null ? null : parseTraceparent(given);
  if (parent === null) return undefined;
  const tracestate = headers.get('tracestate') ?? '';
  const isKept = tracestate !== '' && tracestate.length <= MOST_TRACESTATE_CHARACTERS;
  return { traceparent: writeTraceparent(parent), ...(isKept && { tracestate }) };
}
