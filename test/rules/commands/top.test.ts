import { stripVTControlCharacters } from 'node:util';
import { describe, expect, it } from 'vitest';
import { fleetLines } from '../../../src/commands/top/screen.ts';
import type { FleetView } from '../../../src/protocol/index.ts';
import { FleetHarness } from '../../support/fleet-harness.ts';
import { pool, session } from '../../support/queue-share.ts';

function fleet(): FleetHarness {
  const made = new FleetHarness();
  const gpus = Array.from({ length: 2 }, () => ({
    name: 'NVIDIA H100 80GB HBM3',
    memory_used_bytes: 30e9,
    memory_total_bytes: 80e9,
    utilization: 0.93,
  }));
  made.share({
    full: true,
    sessions: [session('vast-1', { running: 3 })],
    pools: [
      pool('cfg'),
      pool('llama-8b', { pending: { waiting: 12, stored: 0 }, oldest_since: made.nowMs - 40_000 }),
    ],
  });
  made.heartbeat('vast-1', { tokens_per_second: 1234, kv_cache_usage: 0.71, gpus });
  made.heartbeat('vast-2', {
    status: 'starting',
    phase: 'load',
    progress: 0.62,
    config_id: 'llama-8b',
    start: { created_ms: made.nowMs - 72_000 },
  });
  return made;
}

const SCREEN = { columns: 200, rows: 50, hasColours: false };

function lines(
  of: FleetHarness,
  screen: { columns?: number; rows?: number; hasColours?: boolean } = {},
): string[] {
  const shown = { view: of.view(), now: of.nowMs + 4000, connection: 'live' };
  return fleetLines(shown, { ...SCREEN, ...screen });
}

describe('worker-vllm top', () => {
  it('shows the verdict, what needs attention, every pool and every worker', () => {
    expect(lines(fleet())).toEqual([
      'Degraded  1 of 2 pools fine; llama-8b: 12 jobs wait 40 s because its only worker loads, 62 %.',
      'q: 1/2 workers ready · 3/4 slots busy · 12 waiting (oldest 40 s) · 1.2 k tokens/s · live',
      '✖ llama-8b: 12 jobs wait, the oldest for 40 s: its only worker loads, 62 %. → Follow the log of the worker that loads.',
      '',
      'CONFIG    READY  SLOTS  WAITING  OLDEST  IN/MIN  OUT/MIN  FAILED/H  WAIT P95  TTFT P95  WHY THEY WAIT',
      'cfg         1/1    3/4        0       –       0        0         0         –         –',
      'llama-8b    0/1    0/0       12    40 s       0        0         0         –         –  its only worker loads, 62 %',
      '',
      'STATE      WORKER  CONFIG    PHASE                 SLOTS  WAIT    KV  TOK/S  TTFT  GPU         MEMORY  UTIL  TEMP  POWER  BEAT',
      '◉ running  vast-1  cfg                               3/4     –  71 %  1.2 k     –  H100 ×2  60/160 GB  93 %     –      –   4 s',
      '◔ loading  vast-2  llama-8b  load 62 % 1 min 16 s    –/–     –     –      –     –  –                –     –     –      –   4 s',
    ]);
  });

  it('shows what is launched and what it costs, where a scheduler starts the workers', () => {
    const made = fleet();
    const view = made.view();
    const at = made.nowMs;
    const scaled = {
      ...view,
      scaling: { price_per_hour: 2.3, spent_today: 12.4 },
      pools: view.pools.map((row) => ({
        ...row,
        scaling: { wanted: 3, starting: 1, draining: 0, price_per_hour: 2.3 },
      })),
      launches: [
        {
          ...{
            id: 'a8f3kq1z0b',
            config_id: 'cfg',
            provider: 'vast',
            instance_type: 'RTX 4090',
            state: 'accepted',
          },
          ...{ intended_at: at - 95_000, ready_expected_at: at + 60_000, started_at: at, ready_at: null },
          ...{ loading: { phase: 'load', progress: 0.62 }, cost: 0.11, reason: '14 jobs wait', cause: null },
        },
        { id: 'b', state: 'ready' },
      ],
    } as unknown as FleetView;
    const drawn = fleetLines({ view: scaled, now: at, connection: 'live' }, { ...SCREEN });
    expect(drawn[1]).toContain('1.2 k tokens/s · $2.30/h, $12.40 today · live');
    expect(drawn).toEqual(
      expect.arrayContaining([
        expect.stringMatching(/^cfg +1\/1 +3 +1 +0 +\$2\.30\/h +3\/4 /),
        expect.stringMatching(/^LAUNCH +CONFIG +STATE +DOES +FOR +MACHINE +COST +WHY$/),
        'a8f3kq1z0b  cfg     accepted  load 62 %  1 min 35 s of ~2 min 35 s  vast RTX 4090  $0.11  14 jobs wait',
      ]),
    );
  });

  it.each([40, 80, 120])('fits a terminal of %d columns and few lines, with colours', (columns) => {
    const many = fleet();
    for (let n = 0; n < 100; n++) many.heartbeat(`junk-${n}`, { status: 'starting' });
    const drawn = lines(many, { columns, rows: 20, hasColours: true });
    expect(drawn.length).toBeLessThanOrEqual(20);
    expect(Math.max(...drawn.map((line) => stripVTControlCharacters(line).length))).toBeLessThanOrEqual(
      columns,
    );
    expect(drawn.join('\n')).toContain('more workers');
    expect(drawn.join('\n')).toContain('vast-1');
  });

  it('lets nothing that a worker says steer the terminal', () => {
    const odd = new FleetHarness();
    odd.heartbeat('w', { status: 'error', error_message: 'bad\u001b[2J\u0007' });
    expect(lines(odd).join('')).not.toMatch(/\p{Cc}/u);
  });
});
