import { describe, expect, it } from 'vitest';
import {
  ACTION_WORDS,
  actorInWords,
  byWhom,
  changeInWords,
  targetInWords,
} from '../../../src/dashboard/audit-words.ts';
import { AUDIT_ACTIONS } from '../../../src/protocol/index.ts';

describe('an entry of the audit in words', () => {
  it.each([
    [{ control: 'automatic' }, { control: 'paused', text: 'held' }, 'control automatic → paused'],
    [null, { pools: {}, changes: ['pool a is new', 'pool b is gone'] }, 'pool a is new; pool b is gone'],
    [null, { name: 'a', scopes: ['read', 'submit'] }, 'scopes read and submit'],
    [{ name: 'a', scopes: ['read'], tenant: 'ops' }, null, 'scopes read, tenant ops'],
    [[{ name: 'a', scopes: ['read'] }], [{ name: 'a', scopes: ['admin'] }], 'scopes read → admin'],
    [{ limits: { running: 1 } }, { limits: null }, 'limits (running 1) → none'],
    [
      null,
      { config_id: 'a', limits: { tokens_per_day: 5 }, expires_at: '2027-03-31T00:00:00.5Z' },
      'pool a, limits (tokens per day 5), expires at 2027-03-31 00:00:00 UTC',
    ],
    [{ name: 'a' }, { name: 'a' }, ''],
    [null, null, ''],
  ])('tells what became another of %j and %j', (before, after, words) => {
    expect(changeInWords({ before, after })).toBe(words);
  });

  it('tells who it was, where no token did it', () => {
    expect(actorInWords({ actor: 'ops', route: 'POST /api/tokens' })).toBe('ops');
    expect(actorInWords({ actor: null, route: 'token file' })).toBe('a token file');
    expect(actorInWords({ actor: null, route: 'POST /api/fleet/spec' })).toBe('without a token');
    expect(byWhom({ actor: 'ops', route: 'POST /api/tokens' })).toBe('by ops');
    expect(byWhom({ actor: null, route: 'token file' })).toBe('by a token file');
    expect(byWhom({ actor: null, route: 'POST /api/fleet/spec' })).toBe('without a token');
  });

  it.each([
    ['attention.acknowledge', 'worker_lost/gpu-node-3', 'worker lost: gpu-node-3'],
    ['attention.acknowledge', 'no_ready_worker/org/model_a', 'no ready worker: org/model_a'],
    ['attention.acknowledge', 'budget_reached/', 'budget reached'],
    ['alerts.mute', 'pool llama_8b, kind worker_lost', 'pool llama_8b, worker lost'],
    ['alerts.unmute', 'kind jobs_wait', 'jobs wait'],
    ['alerts.mute', 'everything', 'everything'],
    ['token.create', 'kind worker_lost', 'kind worker_lost'],
  ] as const)('tells what %s was about, as kinds of problems are said elsewhere', (action, target, words) => {
    expect(targetInWords({ action, target })).toBe(words);
  });

  it('has words for every action', () => {
    expect(Object.keys(ACTION_WORDS).sort()).toEqual([...AUDIT_ACTIONS].sort());
  });
});
