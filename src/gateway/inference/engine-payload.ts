import { limits } from '../../protocol/index.ts';
import { HttpError, tooLarge } from '../errors.ts';

/** Room in a frame for everything but the payload. */
const FRAME_ENVELOPE_BYTES = 64 * 1024;

/** Bytes of a body that are looked at together. */
const PIECE_BYTES = 64 * 1024;

const encoder = new TextEncoder();

/** How JSON writes a byte in a text, where not as it is. */
const ESCAPES: readonly (Uint8Array | undefined)[] = Array.from({ length: 256 }, (_, byte) => {
  const text = JSON.stringify(String.fromCharCode(byte)).slice(1, -1);
  return text.startsWith('\\') ? encoder.encode(text) : undefined;
});

/**
 * The JSON of an EngineRequest that posts this body, made as bytes: as a string the body would lie in the heap of
 * the isolate, at two bytes a character and more than once.
 * @throws HttpError 400 when the body is not UTF-8, 413 when the payload does not fit into a frame to a worker
 */
export function engineRequestPayload(path: string, body: Uint8Array): Uint8Array<ArrayBuffer> {
  const [head, tail] = JSON.stringify({
    method: 'POST',
    path,
    body: '',
    content_type: 'application/json',
  }).split('"body":""') as [string, string];
  const before = encoder.encode(`${head}"body":"`);
  const after = encoder.encode(`"${tail}`);
  const { bytes, isAscii } = measure(body);
  const total = before.byteLength + bytes + after.byteLength;
  if (total > limits.FRAME_BYTES - FRAME_ENVELOPE_BYTES) throw tooLarge(limits.PAYLOAD_BYTES);
  if (!isAscii) requireUtf8(body);
  const payload = new Uint8Array(total);
  payload.set(before);
  writeEscaped(body, payload, before.byteLength);
  payload.set(after, total - after.byteLength);
  return payload;
}

/** Bytes of the body when it stands in a JSON text. */
function measure(body: Uint8Array): { bytes: number; isAscii: boolean } {
  let bytes = body.byteLength;
  let all = 0;
  for (let at = 0; at < body.byteLength; at++) {
    const byte = body[at] as number;
    all |= byte;
    const escaped = ESCAPES[byte];
    if (escaped !== undefined) bytes += escaped.byteLength - 1;
  }
  return { bytes, isAscii: all < 0x80 };
}

function writeEscaped(body: Uint8Array, target: Uint8Array, start: number): void {
  let to = start;
  for (let at = 0; at < body.byteLength; at++) {
    const byte = body[at] as number;
    const escaped = ESCAPES[byte];
    if (escaped === undefined) {
      target[to++] = byte;
    } else {
      for (let i = 0; i < escaped.byteLength; i++) target[to++] = escaped[i] as number;
    }
  }
}

/** Anything else would end the socket of the worker that it is sent to. */
function requireUtf8(body: Uint8Array): void {
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
  try {
    for (let at = 0; at < body.byteLength; at += PIECE_BYTES) {
      decoder.decode(body.subarray(at, at + PIECE_BYTES), { stream: true });
    }
    decoder.decode();
  } catch {
    throw new HttpError(400, 'The body is not valid UTF-8.', 'invalid_utf8');
  }
}
