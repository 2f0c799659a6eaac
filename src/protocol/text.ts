const encoder = new TextEncoder();

/** Counts the bytes of a text in UTF-8. */
export function utf8Bytes(text: string): number {
  return encoder.encode(text).byteLength;
}

/**
 * Returns whether a text takes at most so many bytes in UTF-8. A UTF-16 unit takes one to three, so few texts need to
 * be measured.
 */
export function fitsUtf8(text: string, bytes: number): boolean {
  return text.length * 3 <= bytes || (text.length <= bytes && utf8Bytes(text) <= bytes);
}

/**
 * Returns whether an answer with these headers (names in lower case) is a stream of server-sent events without content
 * encoding.
 */
export function isEventStream(headers: Readonly<Record<string, string>>): boolean {
  const type = headers['content-type']?.toLowerCase() ?? '';
  return isPlainBody(headers) && type.startsWith('text/event-stream');
}

/** Returns whether the body that comes with these headers has no content encoding. */
export function isPlainBody(headers: Readonly<Record<string, string>>): boolean {
  return (headers['content-encoding'] ?? 'identity') === 'identity';
}

/** Decodes a percent encoding; a text that is none stands for itself, since any caller may have written it. */
export function percentDecoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Ends a text with a full stop, unless it ends a sentence already. */
export function withFullStop(text: string): string {
  const trimmed = text.trimEnd().replace(/([.!?…])\.$/, '$1');
  return /[.!?…]$/.test(trimmed) ? trimmed : `${trimmed}.`;
}

/** The most names in one message. */
const MOST_NAMES = 10;
/** The most characters of one name in a message. */
const MOST_CHARACTERS = 100;

/** Lists names for a message, each once: "a, b, c … and 32 more". */
export function listNames(names: Iterable<string>): string {
  const all = [...new Set(names)];
  const listed = all.slice(0, MOST_NAMES).map(shortName).join(', ');
  return all.length > MOST_NAMES ? `${listed} … and ${all.length - MOST_NAMES} more` : listed;
}

/** Shortens a name from outside for a message. */
export function shortName(name: string): string {
  return name.length > MOST_CHARACTERS ? `${name.slice(0, MOST_CHARACTERS)}…` : name;
}

/** Decodes base64. @throws where the text is no base64 */
export function bytesOfBase64(base64: string): Uint8Array<ArrayBuffer> {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let at = 0; at < text.length; at++) bytes[at] = text.charCodeAt(at);
  return bytes;
}

/** Writes JSON that fits into an HTTP header, which holds no character above 255. */
export function asciiJson(value: unknown): string {
  return JSON.stringify(value).replace(/[\u007f-\uffff]/g, escaped);
}

function escaped(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
}

/** Matches characters that steer a terminal or turn its text around, and halves of characters. */
const STEERING = /[\p{Cc}\p{Cs}\u200e\u200f\u2028-\u202e\u2066-\u2069]/u;
const ALL_STEERING = new RegExp(STEERING, 'gu');

/** Returns whether a name can be shown anywhere as it is, and can be encoded. */
export function isPlain(text: string): boolean {
  return !STEERING.test(text);
}

/** Makes text from elsewhere safe for a terminal, in lines: characters that would steer it are escaped as in JSON. */
export function printable(text: string): string {
  return text.replaceAll(ALL_STEERING, (character) => {
    if (character === '\n' || character === '\t') return character;
    return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
  });
}
