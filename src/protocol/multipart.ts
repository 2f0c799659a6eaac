import { percentDecoded } from './text.ts';

/** Fields of a `multipart/form-data` body (RFC 7578), found in its bytes; files are stepped over, not read. */

/** Where the value of a field stands. */
export interface FormField {
  name: string;
  start: number;
  end: number;
}

/** Most that the headers of one part have. */
export const PART_HEADER_BYTES = 8192;

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
    const headersEnd = findBytes(body, HEADERS_END, at, at + PART_HEADER_BYTES);
    if (headersEnd < 0) break;
    const start = headersEnd + HEADERS_END.length;
    const end = findDelimiter(body, delimiter, headersEnd);
    if (end < 0) break;
    const part = partNameOf(new TextDecoder().decode(body.subarray(at, headersEnd)));
    if (part?.filename === null) fields.push({ name: part.name, start: Math.min(start, end), end });
    at = end + delimiter.length;
  }
  return fields;
}

const HEADERS_END = new TextEncoder().encode('\r\n\r\n');

/** What a part is, by its headers. */
export interface PartName {
  name: string;
  /** Null: a field that is no file. */
  filename: string | null;
}

/** @param headers of one part; null: they do not name it */
export function partNameOf(headers: string): PartName | null {
  const [, disposition = ''] = /^content-disposition:\s*form-data\s*(;[^\r\n]*)/im.exec(headers) ?? [];
  const name = parameterOf(disposition, 'name');
  if (name === null) return null;
  return { name, filename: extendedOf(disposition) ?? parameterOf(disposition, 'filename') };
}

function parameterOf(disposition: string, parameter: 'name' | 'filename'): string | null {
  const pattern = new RegExp(`;\\s*${parameter}=(?:"((?:[^"\\\\]|\\\\.)*)"|([^\\s;"]+))`, 'i');
  const [, quoted, plain] = pattern.exec(disposition) ?? [];
  // Browsers write %22 for a quote and leave backslashes alone, others escape with backslashes.
  return quoted?.replace(/\\(["\\])/g, '$1').replaceAll('%22', '"') ?? plain ?? null;
}

/** `filename*=UTF-8''na%C3%AFve.jsonl` (RFC 5987). */
function extendedOf(disposition: string): string | null {
  const [, value] = /;\s*filename\*=(?:[^';\s]*'[^']*')?([^\s;]*)/i.exec(disposition) ?? [];
  return value === undefined ? null : percentDecoded(value);
}

/** A longer word may begin like the delimiter, and is none. */
function findDelimiter(bytes: Uint8Array, delimiter: Uint8Array, from: number): number {
  let at = findBytes(bytes, delimiter, from);
  while (at >= 0 && !AFTER_DELIMITER.has(bytes[at + delimiter.length])) {
    at = findBytes(bytes, delimiter, at + 1);
  }
  return at;
}

/** @param wanted begins with a carriage return, which the runtime finds quickly @returns -1: it is not there */
export function findBytes(bytes: Uint8Array, wanted: Uint8Array, from = 0, to = bytes.byteLength): number {
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
