import type { Limits } from '../final-state.ts';
import type { Line, Operation } from '../operations.ts';
import { cut, ms, textOf } from './lookups.ts';

/** The time by which clients may hear answers late, on their way over a loaded machine, ms. */
const SLACK_MS = 300;
/** The window of a limit in tokens a minute, less what a client may hear late, ms. */
const WINDOW_MS = 60_000 - 2 * SLACK_MS;

/** A whole answer is the engine's; one that broke off is its beginning. */
export function wrongChats(operations: readonly Operation[]): string[] {
  const wrong: string[] = [];
  for (const { op, call, end } of operations) {
    if (call.kind !== 'chat' || !end || !('chat' in end) || !end.chat) continue;
    const { text } = end.chat;
    const expected = textOf(call.prompt, call.tokens);
    const isRight = end.type === 'ok' ? text === expected : expected.startsWith(text);
    if (!isRight) wrong.push(`chat ${op} (${end.type}): "${cut(text)}" in place of "${cut(expected)}"`);
  }
  return wrong;
}

/** An answer that has begun breaks off only with the gateway that passes it on. */
export function brokenChats(operations: readonly Operation[], lines: readonly Line[]): string[] {
  const kills = lines.filter((line) => line.type === 'fault' && line.name === 'kill-gateways');
  const ends = lines.filter((line) => line.type === 'healed' && line.name === 'kill-gateways');
  return operations.flatMap(({ op, call, end }) => {
    if (call.kind !== 'chat' || end?.type !== 'unknown' || !end.chat) return [];
    const isExplained = kills.some(
      ({ at }, n) => end.at >= at && end.at <= (ends[n]?.at ?? Infinity) + SLACK_MS,
    );
    return isExplained
      ? []
      : [`chat ${op} at ${ms(end.at)}, after ${end.chat.text.length} characters: ${end.why}`];
  });
}

/** Answers whose tokens come at the same time run at the same time. */
export function tooManyAtOnce(operations: readonly Operation[], { running }: Limits): string[] {
  const changes = limitedChats(operations)
    .map(({ chat }) => ({ from: chat.firstAt, to: chat.lastAt - SLACK_MS }))
    .filter(({ from, to }) => to > from)
    .flatMap(({ from, to }) => [
      { at: from, by: 1 },
      { at: to, by: -1 },
    ])
    .sort((a, b) => a.at - b.at || a.by - b.by);
  let count = 0;
  const exceeded: string[] = [];
  for (const { at, by } of changes) {
    count += by;
    if (by > 0 && count > running) exceeded.push(`${count} ran at ${ms(at)}, ${running} may`);
  }
  return exceeded;
}

/**
 * Answers that begin and end within a minute have used all of their tokens within it. Minutes are counted by the clock of
 * the owner, so those in which a clock was set are left out.
 */
export function tooManyTokens(
  operations: readonly Operation[],
  lines: readonly Line[],
  { tokensPerMinute }: Limits,
): string[] {
  const clocks = lines.filter(
    (line) => (line.type === 'fault' || line.type === 'healed') && line.name.startsWith('clock-'),
  );
  const hasClockFault = (from: number, to: number) => clocks.some(({ at }) => at >= from && at <= to);
  const whole = limitedChats(operations).filter(({ isWhole }) => isWhole);
  const exceeded: string[] = [];
  for (const { from } of whole) {
    if (hasClockFault(from, from + WINDOW_MS)) continue;
    const within = whole.filter((other) => other.from >= from && other.chat.lastAt <= from + WINDOW_MS);
    const sum = within.reduce((total, { chat }) => total + chat.totalTokens, 0);
    if (sum > tokensPerMinute)
      exceeded.push(`${sum} tokens in the minute from ${ms(from)} on, ${tokensPerMinute} may be used`);
  }
  return exceeded;
}

function limitedChats(operations: readonly Operation[]) {
  return operations.flatMap(({ call, from, end }) =>
    call.kind === 'chat' && call.token === 'limited' && end && 'chat' in end && end.chat
      ? [{ from, chat: end.chat, isWhole: end.type === 'ok' }]
      : [],
  );
}
