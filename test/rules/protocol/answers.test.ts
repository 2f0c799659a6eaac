import { describe, expect, it } from 'vitest';
import { AnswerFormatError, decodeRecords, encodeRecords } from '../../../src/protocol/index.ts';
import { peerFrom } from '../../../src/worker/session/peer.ts';

const odd = (record: object) => encodeRecords([record as never]);

describe('records that nothing can be made of', () => {
  it.each([
    ['a head without headers', { type: 'head', stream: 1, head: null }],
    ['a head with a status no response has', { type: 'head', stream: 1, head: { status: 99, headers: {} } }],
    [
      'a head with a name no header has',
      { type: 'head', stream: 1, head: { status: 200, headers: { 'a b': '' } } },
    ],
    [
      'a head that would begin another line',
      { type: 'head', stream: 1, head: { status: 200, headers: { a: 'b\r\nc: d' } } },
    ],
    ['a reason without a code', { type: 'broken', stream: 1, reason: { message: 'x', retryable: true } }],
    ['an offset before the beginning', { type: 'bytes', stream: 1, offset: -1, data: new Uint8Array(1) }],
    ['an offset that is no number', { type: 'taken', stream: 1, offset: Number.NaN }],
    ['a size beyond exact numbers', { type: 'end', stream: 1, size: 2 ** 60 }],
  ])('are refused: %s', (_what, record) => {
    expect(() => decodeRecords(odd(record))).toThrow(AnswerFormatError);
  });

  it('are none where heads merely differ from those before', () => {
    const heads = [200, 404, 404, 200].map((status) => ({ status, headers: { 'x-engine': `${status}` } }));
    const read = heads.map((head) => decodeRecords(odd({ type: 'head', stream: 1, head })));
    expect(read).toEqual(heads.map((head) => [{ type: 'head', stream: 1, head }]));
  });

  it('do not hide those that are whole', () => {
    const reason = { message: 'é', code: 'from_the_future', retryable: false };
    expect(decodeRecords(odd({ type: 'broken', stream: 1, reason }))).toEqual([
      { type: 'broken', stream: 1, reason },
    ]);
  });
});

describe('the address of the answer socket', () => {
  const addressFor = (answers_url: string) => {
    const peer = peerFrom(
      {
        type: 'registered',
        protocol: 1,
        session_id: 's',
        answers_url,
        lease_seconds: 30,
        renew_after_seconds: 24,
        resumed: [],
        revoked: [],
      },
      'wss://queue/ws',
    );
    return peer.answersUrl;
  };

  it('is read against the control socket’s, and one that cannot be dialled is left alone', () => {
    expect(addressFor('answers?a=1')).toBe('wss://queue/answers?a=1');
    expect(addressFor('http://[')).toBeUndefined();
    expect(addressFor('file:///x')).toBeUndefined();
  });
});
