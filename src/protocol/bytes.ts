/** The reason why JSON is refused. */
export class JsonFault extends Error {
  override name = 'JsonFault';
  readonly code: 'invalid_json' | 'invalid_utf8' | 'nested_too_deep' | 'too_many_values';
  constructor(code: JsonFault['code'], message: string) {
    super(message);
    this.code = code;
  }
}

/**
 * Refuses bytes that are not UTF-8, in which JSON between programs is written (RFC 8259, section 8.1). A decoder that
 * is not strict would put U+FFFD in their place, and the engine would answer a prompt that nobody wrote.
 */
const strict = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** Removes the byte order mark with which files of some programs begin: engines get none. */
export function withoutMark(bytes: Uint8Array): Uint8Array {
  return bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? bytes.subarray(3) : bytes;
}

/**
 * Decodes the text of a body or of a line, without a byte order mark.
 * @throws JsonFault that names the encoding, or the first byte that is no UTF-8 by its offset in `bytes`
 */
export function utf8Text(bytes: Uint8Array): string {
  try {
    return strict.decode(withoutMark(bytes));
  } catch {
    throw new JsonFault('invalid_utf8', utf8Problem(bytes) ?? 'The body is no UTF-8.');
  }
}

/** Checks that bytes are UTF-8, without decoding their text, which may be long. @throws JsonFault */
export function checkUtf8(bytes: Uint8Array): void {
  const problem = utf8Problem(bytes);
  if (problem !== null) throw new JsonFault('invalid_utf8', problem);
}

/** Says what is wrong with bytes that should be JSON in UTF-8, or returns null. */
export function utf8Problem(bytes: Uint8Array): string | null {
  const other = otherEncoding(bytes);
  if (other !== null)
    return `The body is encoded in ${other}: send it in UTF-8, as JSON has to be (RFC 8259).`;
  const at = firstBadByte(bytes);
  if (at === null) return null;
  const byte = (bytes[at] as number).toString(16).padStart(2, '0');
  return `The body is no UTF-8: the byte 0x${byte} at offset ${at} begins no character. Send it in UTF-8, as JSON has to be (RFC 8259).`;
}

/**
 * Names another encoding of JSON. JSON begins with two ASCII characters, or is one of them alone, so zero bytes among
 * the first four tell.
 */
function otherEncoding(bytes: Uint8Array): string | null {
  const [a, b, c, d] = bytes;
  if (a === 0xff && b === 0xfe) return c === 0 && d === 0 ? 'UTF-32' : 'UTF-16';
  if (a === 0xfe && b === 0xff) return 'UTF-16';
  if (a === 0 && b === 0 && ((c === 0xfe && d === 0xff) || (c === 0 && d))) return 'UTF-32';
  if (a && b === 0 && c === 0 && d === 0) return 'UTF-32';
  return (a === 0 && b) || (a && b === 0) ? 'UTF-16' : null;
}

/** Returns the offset of the first sequence that is no UTF-8, or null, without a second copy of the bytes. */
export function firstBadByte(bytes: Uint8Array): number | null {
  for (let at = 0; at < bytes.byteLength; ) {
    if ((bytes[at] as number) < 0x80) {
      at += 1;
      continue;
    }
    const length = sequenceAt(bytes, at);
    if (length === 0) return at;
    at += length;
  }
  return null;
}

/** Returns how many bytes the character beyond ASCII has that begins here, or 0 where none begins. */
function sequenceAt(bytes: Uint8Array, at: number): number {
  const first = bytes[at] as number;
  const length = first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
  // The bounds of the second byte exclude overlong forms, halves of surrogates and characters beyond U+10FFFF.
  const least = first === 0xe0 ? 0xa0 : first === 0xf0 ? 0x90 : 0x80;
  const most = first === 0xed ? 0x9f : first === 0xf4 ? 0x8f : 0xbf;
  const second = bytes[at + 1] ?? 0;
  if (length === 0 || second < least || second > most) return 0;
  for (let next = at + 2; next < at + length; next++) if (((bytes[next] ?? 0) & 0xc0) !== 0x80) return 0;
  return length;
}

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
