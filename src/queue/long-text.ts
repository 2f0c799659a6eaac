/** Payloads and results as they travel by RPC. */

/**
 * A text on its way by RPC, which carries 32 MiB. One character outside Latin-1 makes every character of a text
 * two bytes there, so a long text travels in UTF-8. So does a long result in a JobView.
 */
export type LongText = string | Uint8Array<ArrayBuffer>;
export type Sent<T extends { payload: string }> = Omit<T, 'payload'> & { payload: LongText };

const SHORT_CHARACTERS = 1_000_000;

export function packText(text: LongText): LongText {
  if (typeof text !== 'string' || text.length <= SHORT_CHARACTERS) return text;
  return encode(text);
}

/** Jobs that travel together: many short payloads are as long as one. */
export function packJobs<T extends { payload: string }>(jobs: readonly T[]): Sent<T>[] {
  const characters = jobs.reduce((sum, { payload }) => sum + payload.length, 0);
  const pack = (text: string) => (characters <= SHORT_CHARACTERS ? text : encode(text));
  return jobs.map((job) => ({ ...job, payload: pack(job.payload) }));
}

export function unpackText(text: LongText): string {
  return typeof text === 'string' ? text : new TextDecoder().decode(text);
}

export function bytesOf(text: LongText): Uint8Array<ArrayBuffer> {
  return typeof text === 'string' ? encode(text) : text;
}

function encode(text: string): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(text) as Uint8Array<ArrayBuffer>;
}

/** A view as callers get it, whatever form its result came in. */
export function unpackView<T extends object>(view: T): T {
  const { result } = view as { result?: unknown };
  return result instanceof Uint8Array
    ? { ...view, result: JSON.parse(new TextDecoder().decode(result)) }
    : view;
}
