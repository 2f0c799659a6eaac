import { describe, expect, it } from 'vitest';
import { LauncherReport } from '../../../src/scheduler/rpc.ts';
import { LauncherHarness } from '../../support/launcher-harness.ts';

describe('the launcher', () => {
  it('carries orders out and tells each result once', async () => {
    const h = new LauncherHarness().start();
    h.orders = [h.launchOrder('a'), h.launchOrder('b')];
    await h.clock.advance(5000);
    expect(h.results).toEqual([
      { launch_id: 'a', order: 1, outcome: { kind: 'launched', external_id: 'fake-1', price_per_hour: 1 } },
      { launch_id: 'b', order: 1, outcome: { kind: 'launched', external_id: 'fake-2', price_per_hour: 1 } },
    ]);
    h.orders = [h.terminateOrder('a', 2, 'fake-1')];
    await h.clock.advance(3000);
    expect(h.results.at(-1)).toEqual({ launch_id: 'a', order: 2, outcome: { kind: 'terminated' } });
    expect(h.provider.alive.map(({ id }) => id)).toEqual(['fake-2']);
    await h.stop();
  });

  it('tells no price that cannot be, which the queue would refuse with all that it tells', async () => {
    const h = new LauncherHarness();
    h.provider.prices.set('h100', -1e9);
    h.start();
    h.orders = [h.launchOrder('a')];
    await h.clock.advance(30_000);
    expect(h.results).toMatchObject([{ outcome: { kind: 'launched', price_per_hour: null } }]);
    expect(h.reports.flatMap(({ lists }) => lists[0]?.machines ?? [])[0]).toMatchObject({
      price_per_hour: null,
    });
    for (const report of h.reports) expect(LauncherReport.safeParse(report).success).toBe(true);
    const told = (price_per_hour: number) => ({
      drivers: [],
      lists: [],
      results: [],
      prices: [{ provider: 'cloud', instance_type: 'h100', price_per_hour }],
    });
    expect([-0.01, 2.5, 1e9].map((price) => LauncherReport.safeParse(told(price)).success)).toEqual([
      false,
      true,
      false,
    ]);
    await h.stop();
  });

  it('keeps results and lists until a sync has taken them', async () => {
    const h = new LauncherHarness().start();
    h.orders = [h.launchOrder('a')];
    await h.clock.advance(100);
    h.queueFault = () => {
      throw new Error('connection refused');
    };
    await h.clock.advance(120_000);
    expect(h.results).toEqual([]);
    h.queueFault = null;
    await h.clock.advance(40_000);
    expect(h.results).toMatchObject([{ launch_id: 'a', outcome: { kind: 'launched' } }]);
    // Its list was made two minutes ago, and says so.
    const [late] = h.reports.flatMap(({ lists }) => lists);
    expect(late!.age_ms).toBeGreaterThan(120_000);
    expect(h.lines.filter((line) => line.includes('does not answer'))).toHaveLength(1);
    await h.stop();
  });

  it('makes one machine of an order that is given again while the first is carried out', async () => {
    const h = new LauncherHarness();
    h.launchesTake(20_000);
    h.start();
    h.orders = [h.launchOrder('a')];
    await h.clock.advance(2000);
    h.orders = [h.launchOrder('a', { order: 2, may_exist: true })];
    await h.clock.advance(40_000);
    expect(h.provider.machines).toHaveLength(1);
    expect(h.results).toMatchObject([{ launch_id: 'a', order: 2, outcome: { kind: 'launched' } }]);
    await h.stop();
  });

  it('ends what is launched meanwhile when the termination comes before the launch is done', async () => {
    const h = new LauncherHarness();
    h.launchesTake(10_000);
    h.start();
    h.orders = [h.launchOrder('a')];
    await h.clock.advance(2000);
    h.orders = [h.terminateOrder('a', 2)];
    await h.clock.advance(20_000);
    expect(h.results.map(({ order, outcome }) => [order, outcome.kind])).toEqual([
      [1, 'launched'],
      [2, 'terminated'],
    ]);
    expect(h.provider.alive).toEqual([]);
    await h.stop();
  });

  it('ends a machine by its id while it still looks for it by its name', async () => {
    const h = new LauncherHarness();
    h.terminationsTake(10_000);
    h.start();
    h.orders = [h.launchOrder('a')];
    await h.clock.advance(2000);
    h.orders = [h.terminateOrder('a', 2)];
    await h.clock.advance(2000);
    h.orders = [h.terminateOrder('a', 3, 'fake-1')];
    await h.clock.advance(30_000);
    expect(h.results.map(({ order, outcome }) => [order, outcome.kind])).toEqual([
      [1, 'launched'],
      [2, 'terminated'],
      [3, 'terminated'],
    ]);
    await h.stop();
  });

  it('drops a launch that could not begin before the scheduler gives it to somebody else', async () => {
    const h = new LauncherHarness();
    h.launchesTake(28_000);
    h.start();
    h.orders = Array.from({ length: 12 }, (_, index) => h.launchOrder(`l${index}`));
    await h.clock.advance(90_000);
    expect(h.provider.machines).toHaveLength(8);
    expect(h.results).toHaveLength(8);
    await h.stop();
  });

  it('lists as often as told, and tells a failed list from an empty one', async () => {
    const h = new LauncherHarness().start();
    await h.clock.advance(25_000);
    const lists = () => h.reports.flatMap(({ lists }) => lists);
    expect(lists().map(({ machines }) => machines)).toEqual([[], [], []]);
    h.provider.accidents.is_down = true;
    await h.clock.advance(20_000);
    expect(lists().at(-1)).toMatchObject({ machines: null, error: 'no answer' });
    h.provider.accidents.is_down = false;
    await h.clock.advance(20_000);
    expect(lists().at(-1)).toMatchObject({ machines: [], error: null });
    await h.stop();
  });

  it('refuses a launch whose secret is not in its environment', async () => {
    const h = new LauncherHarness();
    h.settings.env = {};
    h.start();
    h.orders = [h.launchOrder('a')];
    await h.clock.advance(3000);
    expect(h.results).toMatchObject([
      { outcome: { kind: 'rejected', detail: expect.stringContaining('lacks HF_TOKEN') } },
    ]);
    await h.stop();
  });

  it('gives a worker its environment and shows no secret', async () => {
    const h = new LauncherHarness();
    h.withLaunch(async (request, driver) => {
      await driver.launch(request);
      return { kind: 'rejected', detail: `the body was ${JSON.stringify(request.env)}` };
    });
    h.start();
    h.orders = [h.launchOrder('a')];
    await h.clock.advance(3000);
    expect(h.provider.machines[0]!.env).toEqual({
      CASOLA_HEARTBEAT_INTERVAL: '10',
      CASOLA_LOGS_URL: 'https://queue.example.com/api/logs',
      CASOLA_METRICS_URL: 'https://queue.example.com/api/metrics',
      WORKER_QUEUE_LOST_SECONDS: '900',
      MAX_MODEL_LEN: '4096',
      HF_TOKEN: 'hf-secret-value',
      CASOLA_WS_URL: 'wss://queue.example.com',
      CASOLA_API_URL: 'https://queue.example.com',
      CASOLA_QUEUE_ID: 'vllm-queue',
      CASOLA_CONFIG_ID: 'small',
      CASOLA_INSTANCE_ID: 'wv-abc123-small-a',
      CASOLA_WORKER_ID: 'wv-abc123-small-a',
      CASOLA_MAX_JOBS: '8',
      CASOLA_CREATED_AT: '1767225601',
      ENGINE: 'vllm',
      VLLM_MODEL: 'm',
      CASOLA_API_TOKEN: 'wvl_token-of-this-worker',
    });
    expect(h.results).toHaveLength(1);
    for (const told of [...h.lines, JSON.stringify(h.results)]) {
      expect(told).not.toMatch(/hf-secret-value|wvl_token/);
    }
    await h.stop();
  });

  it('ends when asked to: calls in progress are finished and told, machines run on', async () => {
    const h = new LauncherHarness();
    h.launchesTake(20_000);
    h.start();
    h.orders = [h.launchOrder('a')];
    await h.clock.advance(2000);
    await h.stop();
    expect(h.results).toMatchObject([{ outcome: { kind: 'launched' } }]);
    expect(h.provider.alive).toHaveLength(1);
  });

  it('tells prices', async () => {
    const h = new LauncherHarness();
    h.provider.prices.set('h100', 2.5);
    h.start();
    await h.clock.advance(3000);
    expect(h.reports.at(-1)!.prices).toEqual([
      { provider: 'cloud', instance_type: 'h100', price_per_hour: 2.5 },
    ]);
    await h.stop();
  });
});
