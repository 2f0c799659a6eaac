/** The numbers of the types of records on the answer socket (docs/protocol.md). */
export const RECORD_TYPE = {
  head: 1,
  bytes: 2,
  end: 3,
  broken: 4,
  pause: 5,
  resume: 6,
  taken: 7,
  cancel: 8,
  moves: 9,
  ids: 10,
} as const;

/** The size of a record without its body: type (1 byte), stream (u32), length of the body (u32). */
export const RECORD_HEADER_BYTES = 9;

/** Takes the header of a record, which is at `from` up to `to` in its message. */
export type SeeHeader = (type: number, stream: number, from: number, to: number) => void;

/** Reads the headers of a message's records, and no bodies. @returns false if the message is cut short */
export function readHeaders(message: Uint8Array, see: SeeHeader): boolean {
  const size = message.byteLength;
  let at = 0;
  while (at < size) {
    if (at + RECORD_HEADER_BYTES > size) return false;
    const to = at + RECORD_HEADER_BYTES + uint32(message, at + 5);
    if (to > size) return false;
    see(message[at]!, uint32(message, at + 1), at, to);
    at = to;
  }
  return true;
}

/** Reads a big-endian number without a view of the message, which would cost more than the reading. */
function uint32(message: Uint8Array, at: number): number {
  return ((message[at]! << 24) | (message[at + 1]! << 16) | (message[at + 2]! << 8) | message[at + 3]!) >>> 0;
}
