/** Fewer bytes than this are left to the collector: freeing them costs more than they take. */
const LARGE_BYTES = 16 * 1024;

/**
 * Gives the memory of bytes back at once. V8 does so only when it next collects the generation that their buffer has
 * reached, and requests of some MiB arrive faster than that. Afterwards neither these bytes nor other views of their
 * buffer can be read; a call of the runtime that was given them before keeps what it needs. A part of a
 * buffer is left alone: the rest of it may be somebody else's, as with Node's pooled buffers.
 */
export function freeBytes({ byteLength, buffer }: Uint8Array): void {
  if (byteLength > LARGE_BYTES && byteLength === buffer.byteLength) (buffer as ArrayBuffer).transfer(0);
}
