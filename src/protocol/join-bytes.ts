/** Joins all pieces in one copy. */
export function joinBytes(pieces: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(pieces.reduce((bytes, { byteLength }) => bytes + byteLength, 0));
  let at = 0;
  for (const piece of pieces) {
    whole.set(piece, at);
    at += piece.byteLength;
  }
  return whole;
}

/** Copies the bytes with other text in one place. @param place a view of the bytes */
export function replaceBytes(bytes: Uint8Array, place: Uint8Array, text: string): Uint8Array<ArrayBuffer> {
  const start = place.byteOffset - bytes.byteOffset;
  const after = bytes.subarray(start + place.byteLength);
  return joinBytes([bytes.subarray(0, start), new TextEncoder().encode(text), after]);
}
