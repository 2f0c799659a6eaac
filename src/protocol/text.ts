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

/** The bytes that become one text of characters at a time: the arguments of a call are bounded. */
const BYTES_AT_A_TIME = 0x8000;

/** Encodes bytes in base64. */
export function base64Of(bytes: Uint8Array): string {
  let text = '';
  for (let at = 0; at < bytes.byteLength; at += BYTES_AT_A_TIME)
    text += String.fromCharCode(...bytes.subarray(at, at + BYTES_AT_A_TIME));
  return btoa(text);
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

/**
 * Returns the known name that an unknown one was probably meant for, or null if none is near. A third of its letters
 * may be off, three at most.
 * @param atMost how many may be off in any case
 */
export function closestName(name: string, known: Iterable<string>, atMost = 3): string | null {
  const most = Math.min(atMost, Math.ceil(name.length / 3));
  let closest: { name: string; off: number } | null = null;
  for (const candidate of known) {
    if (Math.abs(candidate.length - name.length) > most) continue;
    const off = editDistance(name.toLowerCase(), candidate.toLowerCase());
    if (off <= most && (closest === null || off < closest.off)) closest = { name: candidate, off };
  }
  return closest?.name ?? null;
}

/** Counts the letters to add, drop or change (Levenshtein). */
export function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, at) => at);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const change = row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(change, row[j]! + 1, next[j - 1]! + 1));
    }
    row = next;
  }
  return row[b.length]!;
}

/**
 * Returns whether a name fits a pattern, in which `*` stands for any run of characters, also for none: `runpod-*`. Such
 * patterns say which ids of queues and workers are allowed.
 */
export function matchesPattern(pattern: string, name: string): boolean {
  const [first = '', ...rest] = pattern.split('*');
  if (rest.length === 0) return name === pattern;
  const last = rest.pop() as string;
  if (!name.startsWith(first)) return false;
  let at = first.length;
  for (const part of rest) {
    const found = name.indexOf(part, at);
    if (found < 0) return false;
    at = found + part.length;
  }
  return name.length - last.length >= at && name.endsWith(last);
}

/**
 * Writes a duration as the page and the ledger show it: `850 ms`, `4.2 s`, `12 s`, `1 min 05 s`, `12 min`, `3 h 12
 * min`, `2 d 4 h`.
 */
export function duration(ms: number): string {
  const value = Math.max(0, ms);
  if (value < 999.5) return `${Math.round(value)} ms`;
  if (value < 9_950) return `${(value / 1000).toFixed(1)} s`;
  return inUnits(Math.round(value / 1000));
}

/** Writes a duration with seconds as the smallest unit, for a value that ticks. */
export function age(ms: number): string {
  return inUnits(Math.max(0, Math.floor(ms / 1000)));
}

function inUnits(seconds: number): string {
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 10) return `${minutes} min ${String(seconds % 60).padStart(2, '0')} s`;
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 24) return `${hours} h ${String(minutes % 60).padStart(2, '0')} min`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

/** Joins alternatives: `a, b or c`. */
export function anyOf(values: readonly string[]): string {
  return values.length < 2 ? values.join() : `${values.slice(0, -1).join(', ')} or ${values.at(-1)}`;
}
