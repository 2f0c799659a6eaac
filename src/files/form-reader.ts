import { findBytes, joinBytes, PART_HEADER_BYTES, partNameOf } from '../protocol/index.ts';

/**
 * A `multipart/form-data` body (RFC 7578) with one file, read as it comes: whatever its length, only the piece that
 * has just come is in memory. Clients differ in their order: OpenAI's for Node sends the file before the fields that
 * say what it is for, the one for Python after them.
 */

/** What a form says beside its file's bytes. */
export interface FormFields {
  /** Null: no file came. */
  filename: string | null;
  /** Fields that are no files, the newest of each name. */
  fields: Map<string, string>;
}

/** The body is no such form. The message tells its sender why. */
export class FormError extends Error {
  override name = 'FormError';
}

/** Most that the value of one field has. */
const FIELD_BYTES = 8192;
/** Fields beside the file: the clients send three. */
const MOST_PARTS = 32;

const LINE_END = '\r\n';

/**
 * States:
 * - `preamble`   before the first delimiter. → `delimiter`
 * - `delimiter`  just after one: more parts follow, or it was the last. → `headers`, `over`
 * - `headers`    of a part. → `file`, `field`
 * - `file`, `field`  its content. → `delimiter`
 * - `over`       after the last delimiter: what follows is ignored. Final.
 */
type State = 'preamble' | 'delimiter' | 'headers' | 'file' | 'field' | 'over';

export class FormReader {
  readonly #delimiter: Uint8Array;
  readonly #onFile: (bytes: Uint8Array) => void;
  #state: State = 'preamble';
  /** Bytes that cannot be told apart yet, as few as possible. A form may begin with its delimiter's dashes. */
  #rest: Uint8Array = bytesOf(LINE_END);
  #parts = 0;
  #filename: string | null = null;
  #fieldName = '';
  #field: Uint8Array[] = [];
  #fieldBytes = 0;
  readonly #fields = new Map<string, string>();

  /** @param onFile takes the file's bytes, in order; they are only valid during the call */
  constructor(boundary: string, onFile: (bytes: Uint8Array) => void) {
    this.#delimiter = bytesOf(`${LINE_END}--${boundary}`);
    this.#onFile = onFile;
  }

  /** @throws FormError */
  push(piece: Uint8Array): void {
    let rest = this.#rest.byteLength === 0 ? piece : joinBytes([this.#rest, piece]);
    while (true) {
      const before = this.#state;
      const taken = this.#step(rest);
      rest = rest.subarray(taken);
      if (this.#state === before) break;
    }
    // A copy: the caller uses its buffer again.
    this.#rest = rest.slice();
  }

  /** @throws FormError where the form is not whole */
  end(): FormFields {
    if (this.#state === 'over') return { filename: this.#filename, fields: this.#fields };
    throw new FormError(
      this.#state === 'preamble'
        ? 'the boundary that the content type names is not in the body'
        : 'the form ends in the middle; was the upload broken off?',
    );
  }

  /** Goes on within the state or to the next. @returns how many bytes are dealt with */
  #step(rest: Uint8Array): number {
    switch (this.#state) {
      case 'preamble':
        return this.#content(rest, () => {});
      case 'delimiter':
        return this.#afterDelimiter(rest);
      case 'headers':
        return this.#headers(rest);
      case 'file':
        return this.#content(rest, this.#onFile);
      case 'field':
        return this.#content(rest, (bytes) => this.#keep(bytes));
      case 'over':
        return rest.byteLength;
    }
  }

  /** Everything up to the next delimiter; what could be the beginning of one is left. */
  #content(rest: Uint8Array, take: (bytes: Uint8Array) => void): number {
    const at = findBytes(rest, this.#delimiter);
    const end = at >= 0 ? at : Math.max(0, rest.byteLength - this.#delimiter.byteLength + 1);
    if (end > 0) take(rest.subarray(0, end));
    if (at < 0) return end;
    if (this.#state === 'field') this.#endField();
    this.#state = 'delimiter';
    return at + this.#delimiter.byteLength;
  }

  #afterDelimiter(rest: Uint8Array): number {
    if (rest.byteLength < 2) return 0;
    const next = textOf(rest.subarray(0, PART_HEADER_BYTES));
    if (next.startsWith('--')) {
      this.#state = 'over';
      return rest.byteLength;
    }
    const [blanks] = /^[ \t]*\r\n/.exec(next) ?? [];
    if (blanks === undefined) {
      if (/^[ \t]*\r?$/.test(next) && rest.byteLength < PART_HEADER_BYTES) return 0;
      throw new FormError('something other than a line end follows the boundary');
    }
    this.#parts += 1;
    if (this.#parts > MOST_PARTS) throw new FormError(`the form has more than ${MOST_PARTS} parts`);
    this.#state = 'headers';
    // The line end stays: a part without any header ends its headers with it.
    return blanks.length - LINE_END.length;
  }

  #headers(rest: Uint8Array): number {
    const end = findBytes(rest, bytesOf(LINE_END + LINE_END));
    if (end > PART_HEADER_BYTES || (end < 0 && rest.byteLength > PART_HEADER_BYTES + 4)) {
      throw new FormError(`the headers of a part are longer than ${PART_HEADER_BYTES} bytes`);
    }
    if (end < 0) return 0;
    const part = partNameOf(textOf(rest.subarray(0, end)));
    if (part === null) throw new FormError('a part has no "Content-Disposition: form-data; name=..."');
    const { name, filename } = part;
    if (filename === null) {
      this.#fieldName = name;
      this.#state = 'field';
    } else {
      if (this.#filename !== null) throw new FormError('there is more than one file');
      this.#filename = filename;
      this.#state = 'file';
    }
    // An empty content is followed by its delimiter at once, whose line end is the headers' second.
    return end + LINE_END.length + LINE_END.length;
  }

  #keep(bytes: Uint8Array): void {
    this.#fieldBytes += bytes.byteLength;
    if (this.#fieldBytes > FIELD_BYTES) {
      throw new FormError(`the field "${this.#fieldName}" is longer than ${FIELD_BYTES} bytes`);
    }
    this.#field.push(bytes.slice());
  }

  #endField(): void {
    this.#fields.set(this.#fieldName, textOf(joinBytes(this.#field)));
    this.#field = [];
    this.#fieldBytes = 0;
  }
}

function bytesOf(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}

function textOf(bytes: Uint8Array): string {
  return new TextDecoder().decode(bytes);
}
