/** A body is read as events, as JSON or a text, as a text alone, or not at all. */
export type Kind = 'events' | 'json' | 'text' | 'bytes';

/** Browsers tell text from other bytes by this many bytes (WHATWG, MIME Sniffing, section 5.2). */
const BEGINNING = 1445;
/** The control characters that texts have: tab, line feed, form feed, carriage return and escape. */
const CONTROLS_OF_TEXT = [0x09, 0x0a, 0x0c, 0x0d, 0x1b];

/** Matches the beginning of a text of events, and a field of one: a text may begin with a colon too. */
const EVENTS = /^[\r\n]*(?:data|event|id|retry)?:/;
const EVENT_FIELD = /^(?:data|event|id|retry):/m;

/** Returns how an answer of this content type is read; null: the type is missing or says nothing. */
export function kindOfType(contentType: string | null): Kind | null {
  const type = contentType?.split(';', 1)[0]?.trim().toLowerCase() ?? '';
  if (type === '' || type === 'application/octet-stream') return null;
  if (type === 'text/event-stream') return 'events';
  if (type.includes('json')) return 'json';
  return type.startsWith('text/') ? 'text' : 'bytes';
}

/** Returns whether a text without a byte order mark is one of events. */
export function isEvents(text: string): boolean {
  return EVENTS.test(text) && EVENT_FIELD.test(text);
}

/** Returns whether bytes are no text: their beginning has a control character that no text has. */
export function isBinary(bytes: Uint8Array): boolean {
  return bytes.subarray(0, BEGINNING).some((byte) => byte < 0x20 && !CONTROLS_OF_TEXT.includes(byte));
}

/** Reads as much of a body as tells how it is read. @returns that, and the body from its beginning */
export async function judged(
  body: ReadableStream<Uint8Array>,
): Promise<{ kind: Kind; body: ReadableStream<Uint8Array> }> {
  const reader = body.getReader();
  let beginning = new Uint8Array();
  let kind: Kind | null = null;
  let isOver = false;
  while (kind === null && !isOver && beginning.length < BEGINNING) {
    const { value = new Uint8Array(), done } = await reader.read();
    isOver = done;
    const longer = new Uint8Array(beginning.length + value.length);
    longer.set(beginning);
    longer.set(value, beginning.length);
    beginning = longer;
    if (isBinary(beginning)) kind = 'bytes';
    else if (isEvents(new TextDecoder().decode(beginning))) kind = 'events';
  }
  const whole = new ReadableStream<Uint8Array>(
    {
      start: (controller) => controller.enqueue(beginning),
      async pull(controller) {
        const { value, done } = await reader.read();
        if (done) controller.close();
        else controller.enqueue(value);
      },
      cancel: (reason) => reader.cancel(reason),
    },
    { highWaterMark: 0 },
  );
  return { kind: kind ?? 'json', body: whole };
}
