import { describe, expect, it } from 'vitest';
import { MOST_FRAMES, messagesOf, parseFrames, WorkerFrame } from '../../../src/protocol/index.ts';

const load = (running: number) => ({ type: 'load', running, waiting: 0, kv_cache_usage: 0, slots_free: 1 });
const read = (message: string) =>
  parseFrames(WorkerFrame, message).map((frame) => (frame.ok ? frame.value : frame.message));

describe('frames in messages', () => {
  it('are what they were, one by itself and several together', () => {
    expect(messagesOf([JSON.stringify(load(1))])).toEqual([JSON.stringify(load(1))]);
    const several = [1, 2, 3].map(load);
    const messages = messagesOf(several.map((frame) => JSON.stringify(frame)));
    expect(messages.map(read)).toEqual([several]);
  });

  it('are parted where a message would become long, and where they are many', () => {
    const long = JSON.stringify('x'.repeat(60_000));
    expect(messagesOf([long, long, long]).map((message) => JSON.parse(message).length)).toEqual([2, 60_000]);
    const many = Array.from({ length: MOST_FRAMES + 1 }, () => JSON.stringify(load(1)));
    expect(messagesOf(many).map((message) => read(message).length)).toEqual([MOST_FRAMES, 1]);
  });

  it('are read although one of them cannot be', () => {
    expect(read(`[{"type":"load"},${JSON.stringify(load(2))}]`)).toEqual([expect.any(String), load(2)]);
    expect(read(`[${'1,'.repeat(MOST_FRAMES)}1]`)).toEqual([`more than ${MOST_FRAMES} frames`]);
  });
});
