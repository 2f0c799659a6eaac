import { FormError, FormParser, type FormPart, joinBytes } from '../protocol/index.ts';

/** The fields of a form beside its file's bytes. */
export interface FormFields {
  /** The name of the form's file; null: the form has no file. */
  filename: string | null;
  /** The values of the fields that are no files; of several fields with the same name, the last value. */
  fields: Map<string, string>;
}

/** The longest value of one field, bytes. */
const FIELD_BYTES = 8192;
/** The most parts of a form; the clients send three fields beside the file. */
const MOST_PARTS = 32;

/**
 * Reads a form with one file, within limits: whatever its length, only the bytes that have just arrived are in memory.
 * Clients differ in the order of parts: OpenAI's client for Node sends the file before the fields that describe it, the
 * one for Python after them.
 */
export class FileForm {
  readonly #form: FormParser;
  readonly #onFile: (bytes: Uint8Array) => void;
  #parts = 0;
  #filename: string | null = null;
  /** The field whose value is being read; null: the file is being read. */
  #fieldName: string | null = null;
  #field = new Uint8Array();
  readonly #fields = new Map<string, string>();

  /** @param onFile takes the file's bytes, in order; they are only valid during the call */
  constructor(boundary: string, onFile: (bytes: Uint8Array) => void) {
    this.#onFile = onFile;
    this.#form = new FormParser(boundary, {
      begin: (part) => this.#begin(part),
      content: (bytes) => (this.#fieldName === null ? this.#onFile(bytes) : this.#keep(bytes)),
      end: () => this.#end(),
    });
  }

  /** Reads more bytes of the form. @throws FormError */
  push(bytes: Uint8Array): void {
    this.#form.push(bytes);
  }

  /** Ends the form. @throws FormError if the form is incomplete */
  end(): FormFields {
    this.#form.end();
    return { filename: this.#filename, fields: this.#fields };
  }

  #begin(part: FormPart | null): void {
    this.#parts += 1;
    if (this.#parts > MOST_PARTS) throw new FormError(`the form has more than ${MOST_PARTS} parts`);
    if (part === null) throw new FormError('a part has no "Content-Disposition: form-data; name=..."');
    const { name, filename } = part;
    this.#fieldName = filename === null ? name : null;
    if (filename === null) return;
    if (this.#filename !== null) throw new FormError('there is more than one file');
    this.#filename = filename;
  }

  #keep(bytes: Uint8Array): void {
    if (this.#field.byteLength + bytes.byteLength > FIELD_BYTES) {
      throw new FormError(`the field "${this.#fieldName}" is longer than ${FIELD_BYTES} bytes`);
    }
    this.#field = joinBytes([this.#field, bytes]);
  }

  #end(): void {
    if (this.#fieldName === null) return;
    this.#fields.set(this.#fieldName, new TextDecoder().decode(this.#field));
    this.#field = new Uint8Array();
  }
}

/** Gathers bytes that arrive in any lengths into pieces of one length; the last may be shorter. */
export class PieceCutter {
  readonly #length: number;
  readonly #take: (piece: Uint8Array) => void;
  #piece: Uint8Array;
  #filled = 0;
  /** The number of bytes pushed so far. */
  bytes = 0;

  /** @param take receives each piece, which is valid only during the call */
  constructor(length: number, take: (piece: Uint8Array) => void) {
    this.#length = length;
    this.#take = take;
    this.#piece = new Uint8Array(length);
  }

  push(bytes: Uint8Array): void {
    this.bytes += bytes.byteLength;
    for (let at = 0; at < bytes.byteLength; ) {
      const part = bytes.subarray(at, at + this.#length - this.#filled);
      this.#piece.set(part, this.#filled);
      this.#filled += part.byteLength;
      at += part.byteLength;
      if (this.#filled === this.#length) this.#flush();
    }
  }

  end(): void {
    if (this.#filled > 0) this.#flush();
  }

  #flush(): void {
    this.#take(this.#piece.subarray(0, this.#filled));
    this.#filled = 0;
  }
}
