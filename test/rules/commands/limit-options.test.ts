import { Command } from 'commander';
import { describe, expect, it } from 'vitest';
import { addTokenCommands } from '../../../src/commands/token-commands.ts';
import { limitsIn } from '../../../src/commands/tokens/limit-options.ts';
import { Budgets, RateLimits, termsText } from '../../../src/protocol/index.ts';

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
    const usual = { weight: null, default_priority: null, highest_priority: null };
    expect(termsText({ ...usual, limits })).toBe('60 requests/min, qwen-*: 2 at a time');
    const more = { weight: 2, default_priority: -5, highest_priority: 10 };
    expect(termsText({ limits: null, ...more })).toBe('priority -5, priority up to 10, weight 2');
    expect(termsText({ ...usual, limits: null })).toBe('none');
    const large = { tokens_per_day: 50_000_000, dollars_per_day: 0.0125 };
    expect(termsText({ ...usual, limits: large })).toBe('50,000,000 tokens/day, $0.0125/day');
  });

  it('are in dollars too', () => {
    expect(limitsIn({ dollarsPerDay: '2.50,qwen-*=1', tenantDollarsPerMonth: '90' }, null)).toEqual({
      dollars_per_day: 2.5,
      models: { 'qwen-*': { dollars_per_day: 1 } },
      tenant: { dollars_per_month: 90 },
    });
    expect(() => limitsIn({ dollarsPerDay: '0' }, null)).toThrow(/--dollars-per-day .* US dollars/);
  });

  it('are of the tenant too, of all models', () => {
    const before = { running: 4, tenant: { tokens_per_day: 5 } };
    expect(limitsIn({ tenantTokensPerMonth: '90' }, before)).toEqual({
      running: 4,
      tenant: { tokens_per_day: 5, tokens_per_month: 90 },
    });
    expect(limitsIn({ tenantTokensPerDay: 'none' }, before)).toEqual({ running: 4 });
    expect(() => limitsIn({ tenantTokensPerDay: '9,qwen=5' }, null)).toThrow(/--tenant-tokens-per-day/);
  });
});

it('every limit, and every budget of the tenant, has an option of token set', () => {
  const program = new Command();
  addTokenCommands(program);
  const set = program.commands[0]!.commands.find((command) => command.name() === 'set')!;
  const options = Object.fromEntries(set.options.map((option) => [option.attributeName(), '9']));
  const { tenant, ...own } = limitsIn(options, null)!;
  expect(Object.keys(own).sort()).toEqual(Object.keys(RateLimits.shape).sort());
  expect(Object.keys(tenant!).sort()).toEqual(Object.keys(Budgets.shape).sort());
});
