import { describe, expect, it } from 'vitest';
import { boundaryOf, formFields } from '../../../src/protocol/index.ts';

const encode = (text: string) => new TextEncoder().encode(text);

function fieldsOf(text: string) {
  return Array.from(formFields(encode(text), 'b'), ([name, value]) => [
    name,
    new TextDecoder().decode(value),
  ]);
}

const part = (headers: string, value: string) => `--b\r\n${headers}\r\n\r\n${value}\r\n`;
const field = (name: string, value: string) => part(`Content-Disposition: form-data; name="${name}"`, value);
const file = (value: string) =>
  part('Content-Disposition: form-data; name="file"; filename="a.wav"\r\nContent-Type: audio/wav', value);

describe('the boundary of a form', () => {
  it.each([
    ['multipart/form-data; boundary=abc', 'abc'],
    ['Multipart/Form-Data;boundary="a b"', 'a b'],
    ['multipart/form-data; charset=utf-8; boundary=----x', '----x'],
    ['multipart/mixed; boundary=abc', null],
    ['multipart/form-data', null],
    ['application/json', null],
    [null, null],
  ])('in %j is %j', (type, boundary) => expect(boundaryOf(type)).toBe(boundary));
});

describe('the fields of a form', () => {
  it('are found before, between and behind files', () => {
    const body = `${field('model', 'tiny')}${file('RIFF')}${field('language', 'en')}--b--\r\n`;
    expect(fieldsOf(body)).toEqual([
      ['model', 'tiny'],
      ['language', 'en'],
    ]);
  });

  it('are not taken from the contents of files', () => {
    const inside = field('model', 'fake').replaceAll('--b', '--bad').replaceAll('\r\n--bad', '\r\n--ba');
    expect(fieldsOf(`${file(inside)}${field('model', 'tiny')}--b--`)).toEqual([['model', 'tiny']]);
  });

  it('may be empty, have lines of their own, names without quotes, and other headers', () => {
    const other = part(
      'content-type: text/plain\r\ncontent-disposition: form-data; name=prompt',
      'a\r\n\r\nb',
    );
    expect(fieldsOf(`preamble\r\n${field('model', '')}${other}--b--`)).toEqual([
      ['model', ''],
      ['prompt', 'a\r\n\r\nb'],
    ]);
  });

  it('are the newest of each name, as engines read them', () => {
    expect(fieldsOf(`${field('model', 'a')}${field('model', 'b')}--b--`)).toEqual([['model', 'b']]);
  });

  it('are told from files, and named, as an upload tells them', () => {
    const extended = part(`Content-Disposition: form-data; name="a"; filename*=UTF-8''b`, 'bytes');
    const other = part('Content-Disposition: attachment; name="b"', 'x');
    const escaped = part('Content-Disposition: form-data; name="a \\"b\\" c:\\d"', '1');
    const encoded = part('Content-Disposition: form-data; name="a %22b%22"', '2');
    expect(fieldsOf(`${extended}${other}${escaped}${encoded}--b--`)).toEqual([
      ['a "b" c:\\d', '1'],
      ['a "b"', '2'],
    ]);
  });

  it('end where a form is cut short', () => {
    const whole = `${field('model', 'tiny')}${field('prompt', 'x')}--b--`;
    for (let length = 0; length < whole.length; length++) {
      for (const [name, value] of fieldsOf(whole.slice(0, length))) {
        expect({ model: 'tiny', prompt: 'x' }).toMatchObject({ [name as string]: value });
      }
    }
  });

  it('are found behind a file of many megabytes', () => {
    const noise = Buffer.alloc(8 * 1024 * 1024);
    for (let at = 0; at < noise.length; at++) noise[at] = (at * 2_654_435_761) >>> 24;
    const body = Buffer.concat([
      encode('--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n'),
      noise,
      encode(`\r\n${field('model', 'tiny')}--b--`),
    ]);
    const found = formFields(body, 'b').get('model')!;
    // A view: a model's name is replaced where it stands.
    expect(Buffer.from(found.buffer, found.byteOffset, found.byteLength).toString()).toBe('tiny');
    expect(found.buffer).toBe(body.buffer);
  });
});
