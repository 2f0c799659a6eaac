import { expect, it } from 'vitest';
import { limits } from '../../../src/protocol/index.ts';
import { RelayHarness, sse, text } from '../../support/relay-harness.ts';

const answer = (stream: number) =>
  [
    { type: 'head', stream, head: sse },
    { type: 'bytes', stream, offset: 0, data: text('data: 1\n\n') },
    { type: 'end', stream, size: 9 },
  ] as const;
const settlements = { type: 'settlements', stream: 0, text: '{"type":"job_result"}' } as const;

it('gives settlements to the queue once the answers before them have ended', () => {
  const harness = new RelayHarness((said) => {
    heard.push({ said, ended: caller.ended });
    return true;
  });
  const heard: { said: string; ended: boolean }[] = [];
  const { caller } = harness.open(1);
  harness.say(...answer(1), settlements);
  expect(heard).toEqual([{ said: settlements.text, ended: true }]);
  expect(harness.closed).toBe(null);
});

it('closes the socket of a worker that may not settle there, or too much at once', () => {
  const apart = new RelayHarness();
  apart.say(settlements);
  expect(apart.closed).toEqual({ code: 1007, reason: 'settlements without the feature answer_settlements' });
  const denied = new RelayHarness(() => false);
  denied.say(settlements);
  expect(denied.closed?.code).toBe(1007);
  const heard: string[] = [];
  const taking = new RelayHarness((said) => heard.push(said) > 0);
  taking.say({ ...settlements, text: 'x'.repeat(limits.ANSWER_SETTLEMENTS_CHARACTERS + 1) });
  expect(heard).toEqual([]);
  expect(taking.closed?.code).toBe(4413);
});
