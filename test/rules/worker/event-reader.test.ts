import fc from 'fast-check';
import { expect, test } from 'vitest';
import { bounds } from '../../../src/protocol/index.ts';
import { EventReader, type Events } from '../../../src/worker/answers/events.ts';

const BLANK_LINE_ENDS = /(\n\n|\r\n\r\n)$/;
/** The bytes of events, of which their text has each as a character. */
function shown({ bytes, text }: Events): Buffer {
  expect(Buffer.from(text, 'latin1').equals(bytes)).toBe(true);
  return Buffer.from(bytes);
}

const pieces = fc.array(
  fc.array(fc.constantFrom('a', '\n', '\r\n', 'data: x\n\n', 'data: y\r\n\r\n', 'é'), { maxLength: 4 }),
);

test('every byte comes out once and in order, and all but the rest ends at the end of an event', () => {
  fc.assert(
    fc.property(pieces, (all) => {
      const reader = new EventReader();
      const texts = all.map((parts) => parts.join('')).filter((text) => text !== '');
      const out = texts.flatMap((text) => {
        const ready = reader.push(Buffer.from(text));
        return ready ? [shown(ready)] : [];
      });
      const last = reader.rest();
      const rest = last && shown(last);
      const joined = Buffer.concat(rest ? [...out, rest] : out).toString();
      expect(joined).toBe(texts.join(''));
      let given = '';
      for (const events of out) {
        given += events.toString();
        expect(given).toMatch(/\n\r?\n$/);
      }
      // What is left holds no whole event.
      const left = rest?.toString() ?? '';
      expect(left).not.toMatch(BLANK_LINE_ENDS);
    }),
  );
});

test('an event beyond the bound is not held: it passes in parts, and the next one is held again', () => {
  const reader = new EventReader();
  const piece = Buffer.alloc(400 * 1024, 'x');
  const out = Array.from({ length: 20 }, () => reader.push(piece)?.bytes.byteLength ?? 0);
  const given = out.reduce((sum, bytes) => sum + bytes);
  expect(20 * piece.byteLength - given).toBeLessThanOrEqual(bounds.EVENT_HELD_BYTES);
  expect(reader.push(Buffer.from('\n\nda'))).toMatchObject({
    isWhole: true,
    text: `${'x'.repeat(20 * piece.byteLength - given)}\n\n`,
  });
  expect(reader.push(Buffer.from('ta: 1'))).toBeNull();
  expect(reader.unfinished).toBe('data: 1');
  expect(reader.rest()?.text).toBe('data: 1');
});
