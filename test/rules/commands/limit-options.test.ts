import { describe, expect, it } from 'vitest';
import { limitsIn, limitsText } from '../../../src/commands/tokens/limit-options.ts';

describe('limits on a command line', () => {
  it('are for all, and by model', () => {
    expect(limitsIn({ requestsPerMinute: '600,qwen-*=60', running: '4' }, null)).toEqual({
      requests_per_minute: 600,
      running: 4,
      models: { 'qwen-*': { requests_per_minute: 60 } },
    });
  });

  it('take the place of those of the same kind, and leave the others', () => {
    const before = { running: 4, tokens_per_minute: 10, models: { a: { running: 1 } } };
    expect(limitsIn({ running: '8' }, before)).toEqual({ running: 8, tokens_per_minute: 10 });
    expect(limitsIn({ running: 'none', tokensPerMinute: 'none' }, before)).toBeNull();
    expect(limitsIn({}, before)).toBeUndefined();
  });

  it('are numbers', () => {
    for (const text of ['0', '-1', '1.5', 'many', 'a=', '']) {
      expect(() => limitsIn({ running: text }, null)).toThrow(/--running .* whole number/);
    }
  });

  it('are told in words', () => {
    const limits = { requests_per_minute: 60, models: { 'qwen-*': { running: 2 } } };
    expect(limitsText(limits)).toBe('60 requests/min, qwen-*: 2 at a time');
    expect(limitsText(null)).toBe('none');
  });
});
