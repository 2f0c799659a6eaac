import { joinBytes } from './bytes.ts';
import { percentDecoded } from './text.ts';

/** Parses `multipart/form-data` (RFC 7578) as it comes, and keeps only bytes that cannot be classified yet. */

/** The name and the filename in the headers of a part. */
export interface FormPart {
  name: string;
  /** The name of the file; null: the part is a field that is no file. */
  filename: string | null;
}

/** Receives the parts of a form, in order. */
export interface FormParts {
  /** Starts a part. @param part null: its headers do not name it */
  begin(part: FormPart | null): void;
  /** Takes some of the part's content, a view of what was pushed. */
  content(bytes: Uint8Array): void;
  end(): void;
}

/** Thrown for a body that is no such form. The message tells its sender why. */
export class FormError extends Error {
  override name = 'FormError';
}

/** The most bytes in the headers of one part. */
const PART_HEADER_BYTES = 8192;

const [TAB, LINE_FEED, CARRIAGE_RETURN, BLANK, DASH] = [0x09, 0x0a, 0x0d, 0x20, 0x2d];
const HEADERS_END = new TextEncoder().encode('\r\n\r\n');

/** Returns the boundary that a content type names, or null if it is no multipart form. */
export function boundaryOf(contentType: string | null | undefined): string | null {
  const [, quoted, plain] =
    /^multipart\/form-data\s*;(?:.*;)?\s*boundary=(?:"([^"]{1,200})"|([^\s;"]{1,200}))/i.exec(
      contentType ?? '',
    ) ?? [];
  return quoted ?? plain ?? null;
}

/**
 * Returns the fields of a whole form that are no files, the newest of each name: their values, as views of the body.
 */
export function formFields(body: Uint8Array, boundary: string): Map<string, Uint8Array> {
  const fields = new Map<string, Uint8Array>();
  let name: string | null = null;
  let value: Uint8Array = new Uint8Array();
  const form = new FormParser(boundary, {
    begin: (part) => {
      name = part?.filename === null ? part.name : null;
      value = new Uint8Array();
    },
    content: (bytes) => {
      value = bytes;
    },
    end: () => void (name !== null && fields.set(name, value)),
  });
  try {
    form.push(body);
  } catch (error) {
    // A malformed part ends the scan: the engine says what is wrong with it.
    if (!(error instanceof FormError)) throw error;
  }
  return fields;
}

/**
 * States of the parser.
 *
 * - `start`     before the first byte, where a form may begin with its first delimiter. → `preamble`, `headers`, `over`
 * - `preamble`  before the first delimiter. → `headers`, `over`
 * - `headers`   in the headers of a part. → `content`
 * - `content`   in the content of a part. → `headers`, `over`
 * - `over`      after the last delimiter: what follows is ignored. Final.
 */
type State = 'start' | 'preamble' | 'headers' | 'content' | 'over';

export class FormParser {
  readonly #delimiter: Uint8Array;
  readonly #parts: FormParts;
  readonly #read: (headers: string) => FormPart | null;
  #state: State = 'start';
  /** The bytes that cannot be classified yet, as few as possible. */
  #rest: Uint8Array = new Uint8Array();

  /** @param read interprets the headers of a part */
  constructor(boundary: string, parts: FormParts, read: (headers: string) => FormPart | null = partOf) {
    this.#delimiter = new TextEncoder().encode(`\r\n--${boundary}`);
    this.#parts = parts;
    this.#read = read;
  }

  /** Parses the next piece. @throws FormError, and what its parts throw */
  push(piece: Uint8Array): void {
    let rest = this.#rest.byteLength === 0 ? piece : joinBytes([this.#rest, piece]);
    while (true) {
      const before = this.#state;
      const taken = this.#step(rest);
      rest = rest.subarray(taken);
      if (taken === 0 && this.#state === before) break;
    }
    // The rest is copied: the caller uses its buffer again.
    this.#rest = rest.slice();
  }

  /** Checks that the form is complete. @throws FormError where it is not */
  end(): void {
    if (this.#state === 'over') return;
    throw new FormError(
      this.#state === 'start' || this.#state === 'preamble'
        ? 'the boundary that the content type names is not in the body'
        : 'the form ends in the middle; was the upload broken off?',
    );
  }

  /** Continues within the state or to the next. @returns how many bytes are dealt with */
  #step(rest: Uint8Array): number {
    switch (this.#state) {
      case 'start':
        return this.#start(rest);
      case 'headers':
        return this.#headers(rest);
      case 'preamble':
      case 'content':
        return this.#content(rest);
      case 'over':
        return rest.byteLength;
    }
  }

  #start(rest: Uint8Array): number {
    const first = this.#delimiter.subarray(2);
    if (rest.byteLength < first.byteLength) return 0;
    const after = startsWith(rest, first, 0) ? this.#afterDelimiter(rest, first.byteLength) : -1;
    if (after < 0) this.#state = 'preamble';
    return Math.max(0, after);
  }

  /** Handles everything up to the next delimiter, and leaves what could be the beginning of one. */
  #content(rest: Uint8Array): number {
    const state = this.#state;
    const { byteLength } = this.#delimiter;
    for (let from = 0; ; ) {
      const at = findBytes(rest, this.#delimiter, from);
      const after = at < 0 ? 0 : this.#afterDelimiter(rest, at + byteLength);
      from = at + 1;
      if (after < 0) continue;
      const end = at < 0 ? Math.max(0, rest.byteLength - byteLength + 1) : at;
      if (state === 'content' && end > 0) this.#parts.content(rest.subarray(0, end));
      if (state === 'content' && after > 0) this.#parts.end();
      return Math.max(end, after);
    }
  }

  /**
   * Reads what follows a delimiter: blanks and a line end, or two dashes after the last one. A longer word that begins
   * like a delimiter is none.
   * @returns where the bytes after the delimiter begin; 0: that cannot be told yet; -1: it is no delimiter
   */
  #afterDelimiter(bytes: Uint8Array, from: number): number {
    let at = from;
    while (bytes[at] === BLANK || bytes[at] === TAB) at++;
    if (at + 1 >= bytes.byteLength) return at - from < PART_HEADER_BYTES ? 0 : -1;
    const isLast = at === from && bytes[at] === DASH && bytes[at + 1] === DASH;
    if (!isLast && (bytes[at] !== CARRIAGE_RETURN || bytes[at + 1] !== LINE_FEED)) return -1;
    this.#state = isLast ? 'over' : 'headers';
    // The line end is left over: a part without any header ends its headers with it.
    return isLast ? at + 2 : at;
  }

  #headers(rest: Uint8Array): number {
    const end = findBytes(rest, HEADERS_END, 0, PART_HEADER_BYTES);
    if (end < 0) {
      if (rest.byteLength < PART_HEADER_BYTES + HEADERS_END.byteLength) return 0;
      throw new FormError(`the headers of a part are longer than ${PART_HEADER_BYTES} bytes`);
    }
    this.#state = 'content';
    this.#parts.begin(this.#read(new TextDecoder().decode(rest.subarray(0, end))));
    return end + HEADERS_END.byteLength;
  }
}

/** Reads the headers of one part. @returns null where they do not name it */
function partOf(headers: string): FormPart | null {
  const [, disposition = ''] = /^content-disposition:\s*form-data\s*(;[^\r\n]*)/im.exec(headers) ?? [];
  const name = parameterOf(disposition, 'name');
  if (name === null) return null;
  return { name, filename: extendedOf(disposition) ?? parameterOf(disposition, 'filename') };
}

const HEADER = /^([\w!#$%&'*+.^`|~-]+):((?:\t|\P{Cc})*)$/u;
const PARAMETER = /[ \t]*;[ \t]*(name|filename\*?)=(?:"((?:[^"\\]|\\.)*)"|([^\s;"\\=]+))[ \t]*/iy;

/**
 * Reads the headers of one part, but only those that every parser reads alike: each on a line of its own, one
 * Content-Disposition, each parameter once and in the plainest form.
 * @throws FormError for any others
 */
export function strictPart(headers: string): FormPart {
  const lines = headers.split('\r\n').filter((line, index) => index > 0 || line !== '');
  const read = lines.map((line) => HEADER.exec(line));
  const odd = lines.find((_, index) => read[index] === null);
  if (odd !== undefined)
    throw new FormError(`a part has the header line ${JSON.stringify(odd.slice(0, 80))}`);
  const valuesOf = (name: string) =>
    read.flatMap((line) => (line![1]!.toLowerCase() === name ? [line![2]!.trim()] : []));
  const dispositions = valuesOf('content-disposition');
  if (dispositions.length !== 1) throw new FormError('each part needs one Content-Disposition');
  for (const encoding of valuesOf('content-transfer-encoding'))
    if (!/^(?:7bit|8bit|binary)$/i.test(encoding))
      throw new FormError(`a part has the Content-Transfer-Encoding ${encoding.slice(0, 80)}`);
  for (const type of valuesOf('content-type'))
    if (/charset\*?="?utf-?(?:7|16|32)/i.test(type)) throw new FormError('a part is not in UTF-8');
  const { name, filename, 'filename*': extended } = parametersIn(dispositions[0]!);
  if (name === undefined || name.includes('\\'))
    throw new FormError(`the name of a part cannot be told: ${dispositions[0]!.slice(0, 120)}`);
  return { name: name.replaceAll('%22', '"'), filename: extended ?? filename ?? null };
}

function parametersIn(disposition: string): Record<string, string> {
  const odd = () =>
    new FormError(`a part has the Content-Disposition ${JSON.stringify(disposition.slice(0, 120))}`);
  const [start] = /^form-data(?=[ \t;])/i.exec(disposition) ?? [];
  if (start === undefined) throw odd();
  const found: Record<string, string> = {};
  const end = disposition.replace(/[ \t]*;?[ \t]*$/, '').length;
  PARAMETER.lastIndex = start.length;
  while (PARAMETER.lastIndex < end) {
    const [, parameter, quoted, plain] = PARAMETER.exec(disposition) ?? [];
    const name = parameter?.toLowerCase();
    if (name === undefined || name in found) throw odd();
    found[name] = quoted ?? plain ?? '';
  }
  return found;
}

function parameterOf(disposition: string, parameter: 'name' | 'filename'): string | null {
  const pattern = new RegExp(`;\\s*${parameter}=(?:"((?:[^"\\\\]|\\\\.)*)"|([^\\s;"]+))`, 'i');
  const [, quoted, plain] = pattern.exec(disposition) ?? [];
  // Browsers write %22 for a quote and leave backslashes alone; other programs escape with backslashes.
  return quoted?.replace(/\\(["\\])/g, '$1').replaceAll('%22', '"') ?? plain ?? null;
}

/** Reads `filename*=UTF-8''na%C3%AFve.jsonl` (RFC 5987). */
function extendedOf(disposition: string): string | null {
  const [, value] = /;\s*filename\*=(?:[^';\s]*'[^']*')?([^\s;]*)/i.exec(disposition) ?? [];
  return value === undefined ? null : percentDecoded(value);
}

/** Finds bytes. @param wanted begins with a carriage return, which the runtime finds quickly @returns -1: not found */
function findBytes(bytes: Uint8Array, wanted: Uint8Array, from = 0, to = bytes.byteLength): number {
  for (let at = bytes.indexOf(CARRIAGE_RETURN, from); at >= 0 && at < to; ) {
    if (startsWith(bytes, wanted, at)) return at;
    at = bytes.indexOf(CARRIAGE_RETURN, at + 1);
  }
  return -1;
}

function startsWith(bytes: Uint8Array, wanted: Uint8Array, at: number): boolean {
  for (let i = 0; i < wanted.length; i++) if (bytes[at + i] !== wanted[i]) return false;
  return true;
}
