import { expect, it } from 'vitest';
import {
  decode,
  encode,
  errorFrom,
  type FromOwner,
  fieldsOfError,
} from '../../../../../src/host/node/link/messages.ts';

const crossed = (answer: unknown) => {
  const read = decode<FromOwner>(encode({ type: 'answer', id: 1, answer }));
  return (read as { answer: unknown }).answer;
};

it('carries every value of a call as it is', () => {
  const value = {
    none: undefined,
    nothing: null,
    zero: -0,
    half: '\ud800',
    times: new Date(5),
    list: [undefined, 1, Number.POSITIVE_INFINITY],
    map: new Map([['a', { b: 1 }]]),
    __proto__: null,
  };
  const read = crossed(value) as typeof value;
  expect({ ...read }).toEqual({ ...value });
  expect(Object.keys(read)).toContain('none');
});

it('gives bytes memory of their own', () => {
  const read = crossed({ bytes: new Uint8Array([1, 2, 3]) }) as { bytes: Uint8Array };
  expect(read.bytes).toEqual(new Uint8Array([1, 2, 3]));
  expect(read.bytes.buffer.byteLength).toBe(3);
});

it('carries an error with what the gateway acts on', () => {
  const error = Object.assign(new Error('it restarts'), { retryable: true, code: 'SQLITE_FULL', errno: 5 });
  const { stack, ...fields } = fieldsOfError(error);
  expect(fields).toEqual({ message: 'it restarts', retryable: true, code: 'SQLITE_FULL' });
  const read = errorFrom({ ...fields, ...(stack && { stack }) });
  expect(read).toBeInstanceOf(Error);
  expect(read).toMatchObject({ message: 'it restarts', retryable: true, stack: error.stack });
  expect(fieldsOfError('text')).toEqual({ message: 'text' });
  expect(fieldsOfError(null)).toEqual({ message: 'null' });
});

it('says so where a value cannot cross', () => {
  expect(() => encode({ type: 'answer', id: 1, answer: () => {} })).toThrow('could not be cloned');
});
