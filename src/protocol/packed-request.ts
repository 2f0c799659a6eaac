import { joinBytes } from './join-bytes.ts';

/**
 * An `engine_request` as bytes, its body as it came from the caller: a zero byte, the length of the JSON (u32,
 * big-endian), the JSON without `body`, then the body. JSON never begins with a zero byte, so both forms of a payload
 * can be told apart. Frames that carry one have the same shape (feature `body_bytes`).
 */

const MARK = 0;
const PREFIX_BYTES = 5;

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** @param head JSON text of an object */
export function pack(head: string, body: Uint8Array): Uint8Array<ArrayBuffer> {
  const json = encoder.encode(head);
  const packed = new Uint8Array(PREFIX_BYTES + json.byteLength + body.byteLength);
  packed[0] = MARK;
  new DataView(packed.buffer).setUint32(1, json.byteLength);
  packed.set(json, PREFIX_BYTES);
  packed.set(body, PREFIX_BYTES + json.byteLength);
  return packed;
}

/** The JSON and the body, which is a view; null: the bytes are not packed, or cut short. */
export function unpack(bytes: Uint8Array): { head: string; body: Uint8Array } | null {
  if (bytes[0] !== MARK || bytes.byteLength < PREFIX_BYTES) return null;
  const length = new DataView(bytes.buffer, bytes.byteOffset).getUint32(1);
  const end = PREFIX_BYTES + length;
  if (end > bytes.byteLength) return null;
  return { head: decoder.decode(bytes.subarray(PREFIX_BYTES, end)), body: bytes.subarray(end) };
}

/** A payload in either form as JSON text; null where it is packed and its body is no UTF-8. */
export function payloadText(bytes: Uint8Array): string | null {
  const json = payloadJson(bytes);
  return json === null ? null : decoder.decode(json);
}

/** The same in UTF-8: no string is made of a body, which may be large. */
export function payloadJson(bytes: Uint8Array): Uint8Array | null {
  const request = unpack(bytes);
  if (request === null) return bytes;
  const { head, body } = request;
  if (body.byteLength === 0) return encoder.encode(head);
  if (!isUtf8(body)) return null;
  return joinBytes([encoder.encode(`${head.slice(0, -1)},"body":"`), escaped(body), encoder.encode('"}')]);
}

const CHECKED_BYTES = 16 * 1024;

/** Looked at in parts, so that no long string is made of it. */
function isUtf8(bytes: Uint8Array): boolean {
  const strict = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
  try {
    for (let at = 0; at < bytes.byteLength; at += CHECKED_BYTES) {
      strict.decode(bytes.subarray(at, at + CHECKED_BYTES), { stream: true });
    }
    strict.decode();
    return true;
  } catch {
    return false;
  }
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
/** `\n`, the one control character that is frequent in JSON. */
const LINE_FEED = 0x0a;
const FIRST_PRINTABLE = 0x20;

/** Text as it stands in a JSON string, both in UTF-8. */
function escaped(text: Uint8Array): Uint8Array {
  let size = text.byteLength;
  for (const byte of text) size += sizeOfEscape(byte);
  const to = new Uint8Array(size);
  let at = 0;
  for (const byte of text) {
    const more = sizeOfEscape(byte);
    if (more === 0) to[at] = byte;
    else if (more === 1) to.set([BACKSLASH, byte === LINE_FEED ? 0x6e : byte], at);
    else to.set(encoder.encode(`\\u00${byte.toString(16).padStart(2, '0')}`), at);
    at += 1 + more;
  }
  return to;
}

/** Bytes that it takes beyond itself. */
function sizeOfEscape(byte: number): number {
  if (byte === QUOTE || byte === BACKSLASH || byte === LINE_FEED) return 1;
  return byte < FIRST_PRINTABLE ? 5 : 0;
}
