import { FormError, FormParser, type FormPart, strictPart } from '../protocol/index.ts';
import { RequestFault } from './json.ts';

/**
 * Reads the fields of a form for an engine. Parsers of forms differ in what they make of odd headers, of a name that
 * occurs twice, of a file among the fields, and of a form that is not whole: whatever two parsers would read
 * differently is refused, so that the engine reads what was judged here.
 */

/**
 * Returns the boundary that a content type names.
 * @throws RequestFault where parsers would disagree about it, or about how its fields are written
 */
export function boundaryIn(contentType: string): string {
  const [, quoted, plain] =
    /^multipart\/form-data\s*;(?:[^"]*;)?\s*boundary=(?:"([^"\\]{1,200})"|([^\s;",\\]{1,200}))\s*(?:;|$)/i.exec(
      contentType,
    ) ?? [];
  const boundary = quoted ?? plain;
  if (boundary === undefined || (contentType.match(/boundary/gi)?.length ?? 0) > 1 + countIn(boundary)) {
    throw invalid('Content-Type: expected one boundary, as in "multipart/form-data; boundary=x"');
  }
  const [, charset] = /;\s*charset\*?="?([^";\s]*)/i.exec(contentType) ?? [];
  if (charset !== undefined && !/^(?:utf-?8|us-ascii)$/i.test(charset))
    throw invalid(`Content-Type: the fields of a form are read in UTF-8, not in "${charset}"`);
  return boundary;
}

function countIn(boundary: string): number {
  return boundary.match(/boundary/gi)?.length ?? 0;
}

/**
 * Reads the fields of a form.
 * @param judged the names of fields that a form may have once each, and not as a file
 * @returns the fields that are no files, as views of the body; of several unjudged ones with the same name, the last
 * @throws RequestFault
 */
export function formFieldsOf(
  body: Uint8Array,
  boundary: string,
  judged: readonly string[],
): Partial<Record<string, Uint8Array>> {
  const fields: Partial<Record<string, Uint8Array>> = Object.create(null);
  let part: FormPart = { name: '', filename: null };
  let value: Uint8Array = new Uint8Array();
  const form = new FormParser(
    boundary,
    {
      begin: (begun) => {
        part = begun!;
        value = new Uint8Array();
        const { name } = part;
        if (judged.includes(name) && (part.filename !== null || name in fields))
          throw invalid(`${name}: expected one such field in the form, which is no file`);
      },
      content: (bytes) => {
        value = bytes;
      },
      end: () => {
        if (part.filename === null) fields[part.name] = value;
      },
    },
    strictPart,
  );
  try {
    form.push(body);
    form.end();
  } catch (error) {
    throw error instanceof FormError
      ? invalid(`The body is no form that engines read alike: ${error.message}`)
      : error;
  }
  return fields;
}

function invalid(problem: string): RequestFault {
  return new RequestFault('invalid_form', `${problem}.`);
}
