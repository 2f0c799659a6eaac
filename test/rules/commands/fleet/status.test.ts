import { describe, expect, it } from 'vitest';
import { statusLines } from '../../../../src/commands/fleet/status.ts';
import type { PoolScaling } from '../../../../src/protocol/index.ts';
import { fleetView, launchRow, scalingOf, versionOf } from './fleet-view.ts';

describe('worker-vllm fleet status', () => {
  it('shows what is wanted, what there is, what it costs and why, by pool', () => {
    const view = fleetView({
      pools: {
        demo: scalingOf({
          wanted: 3,
          ready: 1,
          starting: 2,
          waiting: 12,
          price_per_hour: 1.5,
          spent_today: 0.32,
        }),
        'llama-8b': scalingOf({ wanted: null }),
      },
      scaling: { price_per_hour: 1.5, spent_today: 0.32, budget: { per_hour: 2, per_day: null } },
    });
    const demo = view.pools.find(({ config_id }) => config_id === 'demo')!;
    demo.scaling!.decision = { at: view.at - 5000, text: '3 workers wanted. 2 workers launched.' };
    expect(statusLines(view, view.at)).toEqual([
      'CONFIG    WANTED  READY  STARTING  DRAINING  WAITING  $/HOUR  $ TODAY  LAST DECISION',
      'demo           3      1         2         0       12    1.50     0.32  5 s ago: 3 workers wanted. 2 workers launched.',
      'llama-8b       –      0         0         0        0    0.00     0.00  –',
      '',
      'Now $1.50 an hour of $2.00, today $0.32.',
    ]);
  });

  it('says what the spot machines of a pool did', () => {
    const view = fleetView({
      pools: {
        a: scalingOf({ spot: { lost: 3, moved: 14, repeated: 2, saved: 12.4 } }),
        b: scalingOf({ spot: { lost: 0, moved: 0, repeated: 0, saved: -1 } }),
      },
    });
    const lines = statusLines(view, view.at).filter((line) => line.includes('preemption'));
    expect(lines).toEqual([
      '  Lost to preemption this week: 3 machines, 14 requests moved, 2 repeated. $12.40 saved against on-demand.',
      '  Lost to preemption this week: no machine. $1.00 spent beyond on-demand.',
    ]);
  });

  it('says what holds it up, with the way out', () => {
    const view = fleetView({
      pools: {
        a: scalingOf({ breaker: { text: 'the model cannot be loaded.', until: null } }),
        b: scalingOf({ control: 'paused' }),
      },
      scaling: {
        budget_reached: 'the budget of $2 an hour is reached.',
        providers: [{ name: 'pod', driver: 'runpod', listed_at: null, error: 'HTTP 402\u001b[2J' }],
      },
    });
    expect(statusLines(view, view.at).slice(-5)).toEqual([
      '▲ The budget of $2 an hour is reached.',
      '▲ a: the model cannot be loaded. "worker-vllm fleet resume a" tries again.',
      '▲ b is paused: "worker-vllm fleet resume b" ends that.',
      '▲ Provider pod: HTTP 402\\u001b[2J',
      '▲ Provider pod: no launcher with the driver runpod is connected. Start one with "worker-vllm launcher".',
    ]);
  });

  it('shows the versions of a pool that rolls under it, with how far it is and who is next', () => {
    const versions = [
      versionOf('3f2a91c04b', {
        is_proved: false,
        what: 'image demo:1 → demo:2',
        ...{ ready: 1, starting: 1, requests: 40, share: 0.1, errors: 2 },
        ...{ first_token_p50_ms: 220, first_token_p95_ms: 1400, tokens_per_second: 38 },
      }),
      versionOf('a1b2c3d4e5', { state: 'old', ready: 3, draining: 1, requests: 360, share: 0.9, errors: 0 }),
    ];
    const view = fleetView({ pools: { demo: scalingOf({ versions }), other: scalingOf() } });
    view.pools.find(({ config_id }) => config_id === 'demo')!.scaling!.rollout = {
      ...{ state: 'rolling', from: 'a1b2c3d4e5', to: '3f2a91c04b', since: view.at - 240_000 },
      ...{ text: '1 of 4 workers is replaced', next: 'wv-k3x9-demo-abcdefghij', is_stuck: false },
    };
    expect(statusLines(view, view.at).slice(1, 6)).toEqual([
      'demo         0      0         0         0        0    0.00     0.00              –',
      '  3f2a91c04b wanted, not proved yet · 1 ready, 1 starting · 40 requests (10 %) · 5 % errors · first token 220 ms, p95 1.4 s · 38.0 tokens/s · image demo:1 → demo:2',
      '  a1b2c3d4e5 being replaced · 3 ready, 1 draining · 360 requests (90 %) · 0 % errors',
      '  Rolling out for 4 min 00 s: 1 of 4 workers is replaced. Next: abcdefghij.',
      'other        0      0         0         0        0    0.00     0.00              –',
    ]);
  });

  it('says that rollouts of a pool are paused, since when, and how they are resumed', () => {
    const versions = [versionOf('a1b2c3d4e5', { ready: 2 })];
    const view = fleetView({ pools: { demo: scalingOf({ versions }) } });
    view.pools[0]!.scaling!.rollout = {
      ...{ state: 'paused', from: null, to: 'a1b2c3d4e5', since: view.at - 240_000 },
      ...{ text: 'No worker is replaced.', next: null, is_stuck: false },
    };
    const lines = statusLines(view, view.at);
    expect(lines).toContain('  Rollouts paused for 4 min 00 s: No worker is replaced.');
    expect(lines.at(-1)).toBe(
      '▲ The rollouts of demo are paused: "worker-vllm fleet roll demo --resume" ends that.',
    );
  });

  it('shows why a version was stopped, with the last words of its newest worker, and no single version', () => {
    const why = '5 starts in a row failed: its worker ended with exit code 9';
    const versions = [
      versionOf('a1b2c3d4e5', { ready: 2 }),
      versionOf('3f2a91c04b', { state: 'stopped', stopped_because: why }),
    ];
    const failed = { version: '3f2a91c04b', cause: 'exited', exit_code: 9 } as const;
    const launches = [
      launchRow('older', 'failed', { ...failed, detail: 'of before', state_at: 1 }),
      launchRow('newer', 'failed', { ...failed, detail: 'loading\nThere is no model "x"\n' }),
      launchRow('other', 'ready', { version: 'a1b2c3d4e5', detail: 'fine' }),
    ];
    const lines = (pool: PoolScaling) => {
      const view = fleetView({ pools: { demo: pool }, launches });
      return statusLines(view, view.at).slice(2, -2);
    };
    expect(lines(scalingOf({ versions: versions.slice(0, 1) }))).toEqual([]);
    expect(lines(scalingOf({ versions }))).toEqual([
      '  a1b2c3d4e5 wanted · 2 ready',
      '  3f2a91c04b stopped · none',
      '    Stopped: 5 starts in a row failed: its worker ended with exit code 9.',
      '    | loading',
      '    | There is no model "x"',
    ]);
  });

  it('says how to begin where no fleet is in force', () => {
    expect(statusLines({ ...fleetView({}), scaling: null }, 0)).toEqual([
      'No fleet is applied to this queue: "worker-vllm launcher fleet.yaml" applies one.',
    ]);
  });
});
