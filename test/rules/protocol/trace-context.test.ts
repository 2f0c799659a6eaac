import { expect, it } from 'vitest';
import { parseTraceparent, requestHeaders, traceContextOf } from '../../../src/protocol/index.ts';

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';
const SPAN = '00f067aa0ba902b7';
const PARENT = `00-${TRACE}-${SPAN}-01`;

it.each([
  [PARENT, { traceId: TRACE, spanId: SPAN, flags: 1 }],
  [`00-${TRACE}-${SPAN}-00`, { traceId: TRACE, spanId: SPAN, flags: 0 }],
  [`00-${TRACE}-${SPAN}-03`, { traceId: TRACE, spanId: SPAN, flags: 3 }],
  [`cc-${TRACE}-${SPAN}-01-what-will-be`, { traceId: TRACE, spanId: SPAN, flags: 1 }],
  [`00-${TRACE}-${SPAN}-01-more`, null],
  [`ff-${TRACE}-${SPAN}-01`, null],
  [`00-${'0'.repeat(32)}-${SPAN}-01`, null],
  [`00-${TRACE}-${'0'.repeat(16)}-01`, null],
  [`00-${TRACE.toUpperCase()}-${SPAN}-01`, null],
  [`00-${TRACE}-${SPAN}`, null],
  ['', null],
])('a traceparent of %j is %j', (text, expected) => {
  expect(parseTraceparent(text)).toEqual(expected);
});

it('a submission keeps what can be understood of it, with its flags', () => {
  const of = (given: Record<string, string>) => traceContextOf(new Headers(given));
  expect(of({})).toBeUndefined();
  expect(of({ traceparent: 'nonsense', tracestate: 'a=1' })).toBeUndefined();
  const unsampled = PARENT.replace(/01$/, '00');
  expect(of({ traceparent: unsampled, tracestate: 'a=1' })).toEqual({
    traceparent: unsampled,
    tracestate: 'a=1',
  });
  expect(of({ traceparent: PARENT, tracestate: 'x'.repeat(513) })).toEqual({ traceparent: PARENT });
});

it('a tracestate that is too long reaches no engine', () => {
  const passed = (tracestate: string) => requestHeaders(Object.entries({ traceparent: PARENT, tracestate }));
  expect(passed('a=1')).toEqual({ traceparent: PARENT, tracestate: 'a=1' });
  expect(passed('x'.repeat(513))).toEqual({ traceparent: PARENT });
});
