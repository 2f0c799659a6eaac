import { describe, expect, it } from 'vitest';
import { copyOf, onlyHomeOf, partsOf } from '../../../../src/host/node/answers/by-home.ts';
import {
  AnswerFormatError,
  type AnswerRecord,
  decodeRecords,
  encodeRecords,
  homeOf,
  streamIdOf,
} from '../../../../src/protocol/index.ts';
import { text } from '../../../support/relay-harness.ts';

const bytes = (stream: number, data: string): AnswerRecord => ({
  type: 'bytes',
  stream,
  offset: 0,
  data: text(data),
});
const [own, other, third] = [streamIdOf(7), streamIdOf(7, 3), streamIdOf(7, 255)];

function sorted(message: Uint8Array): Record<number, AnswerRecord[]> {
  const parts = partsOf(message, () => {});
  return Object.fromEntries(parts.map((part) => [part.home, decodeRecords(copyOf(message, part))]));
}

describe('the id of a stream', () => {
  it('says its home, and is the fence token where that is the queue itself', () => {
    expect([own, other, third].map(homeOf)).toEqual([0, 3, 255]);
    expect(own).toBe(7);
    expect(third).toBeLessThan(2 ** 32);
    expect(homeOf(streamIdOf(2 ** 40 + 5, 3))).toBe(3);
  });
});

describe('records by home', () => {
  it('of one home are known as such without being sorted', () => {
    expect(onlyHomeOf(encodeRecords([bytes(own, 'a'), bytes(own + 1, 'b')]))).toBe(0);
    expect(onlyHomeOf(encodeRecords([bytes(third, 'a'), { type: 'end', stream: third, size: 1 }]))).toBe(255);
    expect(onlyHomeOf(encodeRecords([bytes(own, 'a'), bytes(other, 'b')]))).toBeNull();
    expect(onlyHomeOf(new Uint8Array(0))).toBeNull();
  });

  it('stay in order, each with its body', () => {
    const records = [
      bytes(other, 'a'),
      bytes(own, 'b'),
      bytes(other, 'c'),
      bytes(other + 1, 'd'),
      bytes(third, ''),
    ];
    const message = encodeRecords(records);
    expect(sorted(message)).toEqual({
      0: [records[1]],
      3: [records[0], records[2], records[3]],
      255: [records[4]],
    });
  });

  it('leave room before them if that is asked for', () => {
    const message = encodeRecords([bytes(other, 'a'), bytes(own, 'b')]);
    const [part] = partsOf(message, () => {});
    const copy = copyOf(message, part!, 4);
    expect(decodeRecords(copy.subarray(4))).toEqual([bytes(other, 'a')]);
  });

  it('are told one by one, and whether they are the last of their stream', () => {
    const seen: unknown[] = [];
    const reason = { message: 'm', code: 'c', retryable: false };
    partsOf(
      encodeRecords([
        bytes(other, 'a'),
        { type: 'end', stream: own, size: 0 },
        { type: 'broken', stream: third, reason },
      ]),
      (...told) => seen.push(told),
    );
    expect(seen).toEqual([
      [3, other, false],
      [0, own, true],
      [255, third, true],
    ]);
  });

  it('that are cut short are refused wherever the cut is', () => {
    const message = encodeRecords([bytes(own, 'abc'), bytes(other, 'def')]);
    const isWhole = new Set([0, encodeRecords([bytes(own, 'abc')]).byteLength]);
    for (let size = 1; size < message.byteLength; size++) {
      const cut = message.subarray(0, size);
      if (isWhole.has(size)) continue;
      expect(onlyHomeOf(cut)).toBeNull();
      expect(() => partsOf(cut, () => {})).toThrow(AnswerFormatError);
    }
  });
});
