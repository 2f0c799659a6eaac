import { FormError, FormParser, type FormPart, joinBytes } from '../protocol/index.ts';

/** What a form says beside its file's bytes. */
export interface FormFields {
  /** Null: no file came. */
  filename: string | null;
  /** Fields that are no files, the newest of each name. */
  fields: Map<string, string>;
}

/** Most that the value of one field has. */
const FIELD_BYTES = 8192;
/** Fields beside the file: the clients send three. */
const MOST_PARTS = 32;

/**
 * A form with one file, within limits: whatever its length, only the bytes that have just come are in memory. Clients
 * differ in their order: OpenAI's for Node sends the file before the fields that say what it is for, the one for Python
 * after them.
 */
export class FileForm {
  readonly #form: FormParser;
  readonly #onFile: (bytes: Uint8Array) => void;
  #parts = 0;
  #filename: string | null = null;
  /** The field whose value comes; null: it is the file. */
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

  /** @throws FormError */
  push(bytes: Uint8Array): void {
    this.#form.push(bytes);
  }

  /** @throws FormError where the form is not whole */
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
