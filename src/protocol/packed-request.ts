/**
 * An `engine_request` as bytes, its body as it came from the caller: a zero byte, the length of the JSON (u32,
 * big-endian), the JSON without `body`, then the body. JSON never begins with a zero byte, so both forms of a payload
 * can be told apart. Frames that carry such a request have the same shape.
 */

const MARK = 0;
const PREFIX_BYTES = 5;

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** Packs a request. @param head JSON text of an object */
export function pack(head: string, body: Uint8Array): Uint8Array<ArrayBuffer> {
  const json = encoder.encode(head);
  const packed = new Uint8Array(PREFIX_BYTES + json.byteLength + body.byteLength);
  packed[0] = MARK;
  new DataView(packed.buffer).setUint32(1, json.byteLength);
  packed.set(json, PREFIX_BYTES);
  packed.set(body, PREFIX_BYTES + json.byteLength);
  return packed;
}

/** Returns the JSON and the body, which is a view, or null if the bytes are not packed, or cut short. */
export function unpack(bytes: Uint8Array): { head: string; body: Uint8Array } | null {
  if (bytes[0] !== MARK || bytes.byteLength < PREFIX_BYTES) return null;
  const length = new DataView(bytes.buffer, bytes.byteOffset).getUint32(1);
  const end = PREFIX_BYTES + length;
  if (end > bytes.byteLength) return null;
  return { head: decoder.decode(bytes.subarray(PREFIX_BYTES, end)), body: bytes.subarray(end) };
}

/** Returns a payload in either form as JSON text, or null where it is packed and its body is no UTF-8. */
export function payloadText(bytes: Uint8Array): string | null {
  const request = unpack(bytes);
  if (request === null) return decoder.decode(bytes);
  const { head, body } = request;
  if (body.byteLength === 0) return head;
  const text = strictText(body);
  return text === null ? null : `${head.slice(0, -1)},"body":${JSON.stringify(text)}}`;
}

function strictText(bytes: Uint8Array): string | null {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return null;
  }
}
