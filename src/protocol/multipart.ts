/** Fields of a `multipart/form-data` body (RFC 7578), found in its bytes; files are stepped over, not read. */

/** Where the value of a field stands. */
export interface FormField {
  name: string;
  start: number;
  end: number;
}

/** Most that the headers of one part have. */
const PART_HEADER_BYTES = 8192;

const CARRIAGE_RETURN = 0x0d;

/** A line end, blanks before it, or the two dashes of the last one. */
const AFTER_DELIMITER: ReadonlySet<number | undefined> = new Set([CARRIAGE_RETURN, 0x20, 0x09, 0x2d]);

/** The boundary that a content type names; null: it is no multipart form. */
export function boundaryOf(contentType: string | null | undefined): string | null {
  const [, quoted, plain] =
    /^multipart\/form-data\s*;(?:.*;)?\s*boundary=(?:"([^"]{1,200})"|([^\s;"]{1,200}))/i.exec(
      contentType ?? '',
    ) ?? [];
  return quoted ?? plain ?? null;
}

/** The fields that are no files, in order. What is malformed ends the scan: the engine says what is wrong with it. */
export function formFields(body: Uint8Array, boundary: string): FormField[] {
  const delimiter = new TextEncoder().encode(`\r\n--${boundary}`);
  const fields: FormField[] = [];
  // The first delimiter may stand at the very beginning, without a line before it.
  const opening = delimiter.subarray(2);
  const first = findDelimiter(body, delimiter, 0);
  let at = startsWith(body, opening, 0) ? opening.length : first < 0 ? -1 : first + delimiter.length;
  while (at >= 0) {
    const headersEnd = find(body, HEADERS_END, at, at + PART_HEADER_BYTES);
    if (headersEnd < 0) break;
    const start = headersEnd + HEADERS_END.length;
    const end = findDelimiter(body, delimiter, headersEnd);
    if (end < 0) break;
    const name = fieldName(new TextDecoder().decode(body.subarray(at, headersEnd)));
    if (name !== null) fields.push({ name, start: Math.min(start, end), end });
    at = end + delimiter.length;
  }
  return fields;
}

const HEADERS_END = new TextEncoder().encode('\r\n\r\n');

/** The name in the headers of a part; null for a file. */
function fieldName(headers: string): string | null {
  const [, disposition = ''] = /^content-disposition:([^\r\n]*)/im.exec(headers) ?? [];
  if (/;\s*filename\*?=/i.test(disposition)) return null;
  const [, quoted, plain] = /;\s*name=(?:"((?:[^"\\]|\\.)*)"|([^\s;"]+))/i.exec(disposition) ?? [];
  return quoted?.replace(/\\(.)/g, '$1') ?? plain ?? null;
}

/** A longer word may begin like the delimiter, and is none. */
function findDelimiter(bytes: Uint8Array, delimiter: Uint8Array, from: number): number {
  let at = find(bytes, delimiter, from, bytes.byteLength);
  while (at >= 0 && !AFTER_DELIMITER.has(bytes[at + delimiter.length])) {
    at = find(bytes, delimiter, at + 1, bytes.byteLength);
  }
  return at;
}

/** Both that are looked for begin with a carriage return, which the runtime finds quickly. */
function find(bytes: Uint8Array, wanted: Uint8Array, from: number, to: number): number {
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
