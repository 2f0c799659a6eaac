import { describe, expect, it } from 'vitest';
import { bodyFacts } from '../../../src/request-facts/body-facts.ts';

/** Forms that parsers would read as different things reach no engine. */

const TYPE = 'multipart/form-data; boundary=b';
const part = (headers: string, value: string) => `--b\r\n${headers}\r\n\r\n${value}\r\n`;
const field = (name: string, value: string) => part(`Content-Disposition: form-data; name="${name}"`, value);
const FILE = part(
  'Content-Disposition: form-data; name="file"; filename="a b.wav"\r\nContent-Type: audio/wav',
  'RIFF',
);
const facts = (parts: string, type = TYPE) => bodyFacts(new TextEncoder().encode(`${parts}--b--\r\n`), type);

describe('a form', () => {
  it('says its model, its priority and whether it streams', () => {
    const read = facts(FILE + field('model', 'tiny') + field('stream', 'True') + field('priority', '-3'));
    expect(read).toMatchObject({ kind: 'form', model: 'tiny', stream: true, priority: '-3' });
  });

  it.each([
    ['names without quotes', part('content-disposition: form-data; name=model', 'tiny')],
    [
      'other headers',
      part(
        'Content-Type: text/plain; charset=ISO-8859-1\r\nContent-Disposition: form-data; name="model"\r\nContent-Transfer-Encoding: 8bit',
        'tiny',
      ),
    ],
    [
      'a file of an odd name',
      part(`Content-Disposition: form-data; name="file"; filename="x"; filename*=UTF-8''%C3%A9.wav`, 'R') +
        field('model', 'tiny'),
    ],
    [
      'fields that come twice',
      field('timestamp_granularities[]', 'word') +
        field('timestamp_granularities[]', 'segment') +
        field('model', 'tiny'),
    ],
  ])('may have %s', (_, parts) => expect(facts(parts).model).toBe('tiny'));

  it.each([
    ['a name twice in one header', part('Content-Disposition: form-data; name="x"; name="model"', 'other')],
    ['a blank before the equals sign', part('Content-Disposition: form-data; name ="model"', 'other')],
    ['a blank behind it', part('Content-Disposition: form-data; name= "model"', 'other')],
    [
      'two Content-Dispositions',
      part(
        'Content-Disposition: form-data; name="x"\r\nContent-Disposition: form-data; name="model"',
        'other',
      ),
    ],
    ['none', part('Content-Type: text/plain', 'other')],
    ['another kind of part', part('Content-Disposition: attachment; name="model"', 'other')],
    ['a folded header', part('Content-Disposition: form-data;\r\n name="model"', 'other')],
    ['a name that is encoded', part("Content-Disposition: form-data; name*=UTF-8''model", 'other')],
    ['a name in pieces', part('Content-Disposition: form-data; name*0="mo"; name*1="del"', 'other')],
    ['a name with a backslash', part('Content-Disposition: form-data; name="mo\\del"', 'other')],
    ['a blank in the header’s name', part('Content-Disposition : form-data; name="model"', 'other')],
    ['two models', field('model', 'tiny') + field('model', 'other')],
    ['a file for a model', part('Content-Disposition: form-data; name="model"; filename="a"', 'other')],
    [
      'content in another encoding',
      part('Content-Disposition: form-data; name="model"\r\nContent-Transfer-Encoding: base64', 'b3RoZXI='),
    ],
    [
      'content in another character set',
      part('Content-Disposition: form-data; name="model"\r\nContent-Type: text/plain; charset=utf-16', 'x'),
    ],
    ['a stream that may be one', field('stream', 'perhaps')],
    ['parameters that are the engines’', field('vllm_xargs', '{"kv_transfer_params":1}')],
    ['parts of such parameters', field('vllm_xargs[kv_transfer_params]', '1')],
  ])('with %s is refused', (_, parts) => {
    expect(() => facts(FILE + parts)).toThrow(expect.objectContaining({ name: 'RequestFault' }));
  });

  it('that is not whole is refused', () => {
    const whole = `${FILE}${field('model', 'tiny')}--b--`;
    for (let length = 1; length < whole.length; length++)
      expect(() => bodyFacts(new TextEncoder().encode(whole.slice(0, length)), TYPE)).toThrow(/no form/);
  });

  it.each([
    'multipart/form-data',
    'multipart/form-data; boundary=b; boundary=c',
    'multipart/form-data; a="x; boundary=c"; boundary=b',
    'multipart/form-data; boundary=b; charset=utf-16',
    'multipart/form-data; boundary=b; charset="utf-7"',
    'multipart/mixed; boundary=b',
  ])('of the type %s is refused', (type) => {
    expect(() => facts(field('model', 'tiny'), type)).toThrow(/^Content-Type: /);
  });
});
