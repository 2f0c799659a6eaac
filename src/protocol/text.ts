const encoder = new TextEncoder();

/** Bytes of a text in UTF-8. */
export function utf8Bytes(text: string): number {
  return encoder.encode(text).byteLength;
}

/** Whether a text takes at most so many bytes in UTF-8: one to three a UTF-16 unit, so few need to be measured. */
export function fitsUtf8(text: string, bytes: number): boolean {
  return text.length * 3 <= bytes || (text.length <= bytes && utf8Bytes(text) <= bytes);
}

/** Whether an answer with these headers (names in lower case) is a stream of server-sent events that can be read as it is. */
export function isEventStream(headers: Readonly<Record<string, string>>): boolean {
  const encoding = headers['content-encoding'] ?? 'identity';
  const type = headers['content-type']?.toLowerCase() ?? '';
  return encoding === 'identity' && type.startsWith('text/event-stream');
}
