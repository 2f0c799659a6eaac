import fc from 'fast-check';
import { expect, test } from 'vitest';
import { limits } from '../../../src/protocol/index.ts';
import { EventSplitter } from '../../../src/worker/answers/event-splitter.ts';

const BLANK_LINE_ENDS = /(\n\n|\r\n\r\n)$/;
const pieces = fc.array(
  fc.array(fc.constantFrom('a', '\n', '\r\n', 'data: x\n\n', 'data: y\r\n\r\n', 'é'), { maxLength: 4 }),
);

test('every byte comes out once and in order, and all but the rest ends at the end of an event', () => {
  fc.assert(
    fc.property(pieces, (all) => {
      const splitter = new EventSplitter();
      const texts = all.map((parts) => parts.join('')).filter((text) => text !== '');
      const out = texts.flatMap((text) => {
        const ready = splitter.push(Buffer.from(text));
        return ready ? [Buffer.from(ready)] : [];
      });
      const rest = splitter.rest();
      const joined = Buffer.concat(rest ? [...out, rest] : out).toString();
      expect(joined).toBe(texts.join(''));
      let given = '';
      for (const events of out) {
        given += events.toString();
        expect(given).toMatch(/\n\r?\n$/);
      }
      // What is left holds no whole event.
      const left = rest ? Buffer.from(rest).toString() : '';
      expect(left).not.toMatch(BLANK_LINE_ENDS);
    }),
  );
});

test('an event beyond the bound is not held: it passes in parts, and the next one is held again', () => {
  const splitter = new EventSplitter();
  const piece = Buffer.alloc(400 * 1024, 'x');
  const out = Array.from({ length: 20 }, () => splitter.push(piece)?.byteLength ?? 0);
  const given = out.reduce((sum, bytes) => sum + bytes);
  expect(20 * piece.byteLength - given).toBeLessThanOrEqual(limits.EVENT_HELD_BYTES);
  expect(splitter.push(Buffer.from('\n\nda'))?.byteLength).toBe(20 * piece.byteLength - given + 2);
  expect(splitter.push(Buffer.from('ta: 1'))).toBeNull();
  expect(String(splitter.rest())).toBe('data: 1');
});
