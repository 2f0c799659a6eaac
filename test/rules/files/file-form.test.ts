import { describe, expect, it } from 'vitest';
import { FileForm } from '../../../src/files/upload.ts';
import { FormError } from '../../../src/protocol/index.ts';

const BOUNDARY = 'b0undary';
const encode = (text: string) => new TextEncoder().encode(text);
const FILE =
  '{"custom_id":"1"}\r\n{"custom_id":"größer 🙂"}\r\n--b0undar\r\n--b0undaryx\r\n--b0undary-\r\n\r';

function part(headers: string, content: string): string {
  return `--${BOUNDARY}\r\n${headers}\r\n\r\n${content}\r\n`;
}

const FILE_PART = part(
  'Content-Disposition: form-data; name="file"; filename="in.jsonl"\r\nContent-Type: application/jsonl',
  FILE,
);
const PURPOSE = part('Content-Disposition: form-data; name="purpose"', 'batch');
const EXPIRES = part('content-disposition: form-data; name="expires_after[seconds]"', '3600');
const END = `--${BOUNDARY}--\r\n`;

interface Read {
  file: string;
  filename: string | null;
  fields: Record<string, string>;
}

function read(pieces: readonly Uint8Array[]): Read {
  const file: Uint8Array[] = [];
  const reader = new FileForm(BOUNDARY, (bytes) => void file.push(bytes.slice()));
  for (const piece of pieces) reader.push(piece);
  const { filename, fields } = reader.end();
  return { file: Buffer.concat(file).toString(), filename, fields: Object.fromEntries(fields) };
}

const readText = (text: string) => read([encode(text)]);
const EXPECTED = {
  file: FILE,
  filename: 'in.jsonl',
  fields: { purpose: 'batch', 'expires_after[seconds]': '3600' },
};

describe('a form with a file', () => {
  it('is read whether the file comes first, as OpenAI’s client for Node sends it, or last', () => {
    expect(readText(FILE_PART + PURPOSE + EXPIRES + END)).toEqual(EXPECTED);
    expect(readText(PURPOSE + EXPIRES + FILE_PART + END)).toEqual(EXPECTED);
  });

  it('is the same wherever the network cuts it', () => {
    const form = encode(`a preamble\r\n${PURPOSE}${FILE_PART}${EXPIRES}${END}an epilogue`);
    for (let at = 1; at < form.byteLength; at++) {
      expect(read([form.subarray(0, at), form.subarray(at)])).toEqual(EXPECTED);
    }
    expect(read(Array.from(form, (byte) => Uint8Array.of(byte)))).toEqual(EXPECTED);
  });

  it('may have an empty file, an empty field, or none at all', () => {
    const empty = part('Content-Disposition: form-data; name="file"; filename=""', '');
    const field = part('Content-Disposition: form-data; name="purpose"', '');
    expect(readText(empty + field + END)).toEqual({ file: '', filename: '', fields: { purpose: '' } });
    expect(readText(`--${BOUNDARY}--`)).toEqual({ file: '', filename: null, fields: {} });
  });

  it('keeps the name of the file as its sender wrote it', () => {
    const named = (parameters: string) =>
      readText(part(`Content-Disposition: form-data; name="file"; ${parameters}`, 'x') + END).filename;
    expect(named('filename="a \\"b\\".jsonl"')).toBe('a "b".jsonl');
    expect(named('filename="a %22b%22.jsonl"')).toBe('a "b".jsonl');
    expect(named('filename=plain.jsonl')).toBe('plain.jsonl');
    expect(named(`filename="n.jsonl"; filename*=UTF-8''na%C3%AFve.jsonl`)).toBe('naïve.jsonl');
    expect(named(`filename*=iso-8859-1''%E4.jsonl`)).toBe('%E4.jsonl');
    expect(named(`filename="größer.jsonl"`)).toBe('größer.jsonl');
  });

  it('says what is wrong with one that is none', () => {
    const long = 'x'.repeat(9000);
    const cases: [string, RegExp][] = [
      ['no boundary here', /boundary .* is not in the body/],
      [FILE_PART, /ends in the middle/],
      [FILE_PART.slice(0, 30), /ends in the middle/],
      [FILE_PART + FILE_PART + END, /more than one file/],
      [part('Content-Type: text/plain', 'x') + END, /no "Content-Disposition/],
      [part(`Content-Disposition: form-data; name="${long}"`, 'x') + END, /headers of a part are longer/],
      [part('Content-Disposition: form-data; name="purpose"', long) + END, /"purpose" is longer/],
      [PURPOSE.repeat(33) + END, /more than 32 parts/],
      [`--${BOUNDARY}suffix\r\n\r\n`, /boundary .* is not in the body/],
    ];
    for (const [text, message] of cases) {
      expect(() => readText(text)).toThrow(FormError);
      expect(() => readText(text)).toThrow(message);
    }
  });
});
