import { describe, expect, it } from 'vitest';
import { statusLines } from '../../../../src/commands/fleet/status.ts';
import { fleetView, scalingOf } from './fleet-view.ts';

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

  it('says how to begin where no fleet is in force', () => {
    expect(statusLines({ ...fleetView({}), scaling: null }, 0)).toEqual([
      'No fleet is applied to this queue: "worker-vllm launcher fleet.yaml" applies one.',
    ]);
  });
});
