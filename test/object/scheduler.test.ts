import { setTimeout } from 'node:timers/promises';
import { expect, it } from 'vitest';
import type { FleetView, LaunchRow } from '../../src/protocol/index.ts';
import type { LauncherAnswer, LauncherReport, Order } from '../../src/scheduler/rpc.ts';
import { until } from '../support/poll.ts';
import { RawWorker } from '../support/raw-worker.ts';
import { startTestQueue } from '../support/test-queue.ts';
import { tokenEntry } from '../support/token-entry.ts';

/** The scheduler in a real process, which is killed between its steps. The test plays launchers and workers. */
const SCOPES = ['admin', 'launcher', 'submit', 'read'] as const;
const TOKENS = SCOPES.map((scope) => tokenEntry(scope, [scope]));

const road = startTestQueue({ TOKENS: JSON.stringify(TOKENS) });

it('refuses a file with a name that no schema would tell of', async () => {
  const fleet = new Fleet();
  const spec = JSON.parse('{"providers":{"cloud":{"driver":"runpod"}},"pools":{"__proto__":{"model":"m"}}}');
  const { status, body } = await fleet.call('admin', '/api/fleet/spec', { spec });
  expect([status, JSON.stringify(body)]).toEqual([400, expect.stringContaining('spec.pools.__proto__')]);
});

class Fleet {
  readonly id = road.newQueue();
  readonly prefixes = new Set<string>();

  async call(token: string, path: string, body?: object, method = body ? 'POST' : 'GET') {
    const headers = { 'x-queue-id': this.id, authorization: `Bearer ${token}` };
    const answer = await fetch(`${road.url}${path}`, {
      method,
      headers,
      ...(body && { body: JSON.stringify(body) }),
    });
    return { status: answer.status, body: (await answer.json()) as Record<string, unknown> };
  }

  async apply(): Promise<void> {
    const chat = {
      model: 'org/tiny',
      slots: 1,
      max: 1,
      machines: [{ provider: 'cloud', price_per_hour: 2 }],
    };
    const spec = { providers: { cloud: { driver: 'runpod' } }, pools: { chat } };
    expect((await this.call('admin', '/api/fleet/spec', { spec })).status).toBe(200);
  }

  /** One sync, with a complete list of these machines. */
  async sync(machines: object[] = [], more: Partial<LauncherReport> = {}, launcher = 'l-1') {
    const machine = { created_at: null, started_at: null, ended_at: null, price_per_hour: null };
    const whole = machines.map((one) => ({
      ...machine,
      state: 'running',
      exit_code: null,
      detail: null,
      ...one,
    }));
    const lists = [{ provider: 'cloud', age_ms: 0, machines: whole, error: null }];
    const report = { drivers: ['runpod'], lists, results: [], prices: [], ...more };
    const answer = await this.call('launcher', `/api/launchers/${launcher}/sync`, report);
    expect(answer).toMatchObject({ status: 200 });
    const { prefix, orders } = answer.body as unknown as LauncherAnswer;
    this.prefixes.add(prefix);
    return orders;
  }

  /** The first order, once there is one. */
  order<K extends Order['kind']>(kind: K, machines: object[] = []): Promise<Extract<Order, { kind: K }>> {
    return until(async () => {
      const [order] = await this.sync(machines);
      return order?.kind === kind ? (order as Extract<Order, { kind: K }>) : null;
    }, `${kind} is ordered`);
  }

  result({ launch_id, order }: Order, outcome: object) {
    return this.sync([], { results: [{ launch_id, order, outcome } as never] });
  }

  async launch(id: string): Promise<LaunchRow> {
    const { body } = await this.call('read', '/api/fleet');
    const row = (body as unknown as FleetView).launches.find((row) => row.id === id);
    if (!row) throw new Error(`there is no launch ${id}`);
    return row;
  }

  inState(id: string, state: LaunchRow['state']): Promise<LaunchRow> {
    return until(async () => {
      const row = await this.launch(id);
      return row.state === state ? row : null;
    }, `the launch is ${state}`);
  }

  async worker(order: Extract<Order, { kind: 'launch' }>, jobs: object[] = []): Promise<RawWorker> {
    const worker = await new RawWorker(road.url, order.token).connect(this.id);
    return worker.register(order.name, { config_id: 'chat', jobs });
  }

  submit() {
    const job = { job_type: 'chat_completion', config_id: 'chat', payload: { messages: [] } };
    return this.call('submit', '/api/jobs', job);
  }
}

it('a launch outlives the queue at every step, is made once, and its token ends with it', async () => {
  const fleet = new Fleet();
  await fleet.apply();
  await fleet.sync();
  expect((await fleet.submit()).status).toBe(201);
  await until(async () => {
    const { body } = await fleet.call('read', '/api/fleet');
    return (body as unknown as FleetView).launches.length === 1;
  }, 'a launch is intended');
  await road.killAndRestart();

  const order = await fleet.order('launch');
  expect(order).toMatchObject({ may_exist: false, order: 1, pool: { model: 'org/tiny' } });
  const id = order.launch_id;
  await road.killAndRestart();
  // Whoever asks meanwhile: the first may still be at it.
  expect(await fleet.sync([], {}, 'l-2')).toEqual([]);
  expect(await fleet.launch(id)).toMatchObject({ state: 'requested' });

  expect(await fleet.result(order, { kind: 'launched', external_id: 'pod-1', price_per_hour: 3 })).toEqual(
    [],
  );
  await road.killAndRestart();
  expect(await fleet.launch(id)).toMatchObject({
    state: 'accepted',
    external_id: 'pod-1',
    price_per_hour: 3,
  });

  const machines = [{ name: order.name, external_id: 'pod-1', started_at: Date.now() }];
  await fleet.sync(machines);
  const worker = await fleet.worker(order);
  const job = await worker.job();
  await fleet.inState(id, 'ready');

  const drained = await fleet.call('admin', '/api/fleet/pools/chat/drain', {});
  expect(drained).toMatchObject({ status: 200, body: { control: 'drained' } });
  await fleet.inState(id, 'draining');
  await road.killAndRestart();
  const held = { job_id: job.job_id, fence_token: job.fence_token };
  const back = await fleet.worker(order, [held]);
  await fleet.submit();
  expect(await fleet.sync(machines)).toEqual([]);
  expect(await fleet.launch(id)).toMatchObject({ state: 'draining' });
  expect(back.frames.filter(({ type }) => type === 'job')).toEqual([]);
  back.send({ type: 'job_result', ...held, result: {} });

  const end = await fleet.order('terminate', machines);
  expect(end).toMatchObject({ launch_id: id, external_id: 'pod-1' });
  expect((await fleet.call(order.token, '/api/fleet')).status).toBe(403);
  await road.killAndRestart();
  await fleet.result(end, { kind: 'terminated' });
  expect(await fleet.launch(id)).toMatchObject({ state: 'gone', cause: null });
  const dead = await fleet.call(order.token, '/api/heartbeats', {
    instance_id: order.name,
    status: 'running',
  });
  expect(dead).toMatchObject({ status: 401, body: { error: { message: expect.stringContaining('ended') } } });
  expect(fleet.prefixes.size).toBe(1);
});

it('a token of a launch is good for its own worker in its own queue alone', async () => {
  const fleet = new Fleet();
  await fleet.apply();
  await fleet.sync();
  await fleet.call('admin', '/api/fleet/pools/chat/launch', {});
  const order = await fleet.order('launch');
  const beat = (instance_id: string, more: object = {}) =>
    fleet.call(order.token, '/api/heartbeats', {
      instance_id,
      status: 'starting',
      queue_id: fleet.id,
      ...more,
    });
  expect((await beat(order.name)).status).toBe(200);
  expect((await beat('another')).status).toBe(403);
  expect((await beat(order.name, { queue_id: 'elsewhere' })).status).toBe(403);
  expect((await fleet.call(`${order.token}x`, '/api/heartbeats', {})).status).toBe(401);
  expect((await fleet.call(order.token, '/api/launchers/l-1/sync', {})).status).toBe(403);
  const dial = () => new RawWorker(road.url, order.token, { 'x-worker-config-id': '' }).connect(fleet.id);
  const curious = await (await dial()).register(order.name, { config_id: 'secret', base: true });
  expect(await curious.next('error')).toMatchObject({
    message: expect.stringContaining('the pool "chat"'),
  });
  expect(await until(() => curious.closed, 'it is closed')).toBe(4403);
  expect((await (await dial()).register(order.name, { config_id: 'chat' })).closed).toBeNull();
});

it('a spec is refused with all its faults, and the one in force stays', async () => {
  const fleet = new Fleet();
  await fleet.apply();
  const chat = { model: '', min: 3, max: 1, machines: [{ provider: 'nowhere' }] };
  const answer = await fleet.call('admin', '/api/fleet/spec', { spec: { providers: {}, pools: { chat } } });
  expect(answer).toMatchObject({ status: 400 });
  const { message } = answer.body.error as { message: string };
  expect(message).toContain('spec.pools.chat.model');
  expect((await fleet.call('read', '/api/fleet/spec')).body).toMatchObject({
    spec: { pools: { chat: { model: 'org/tiny' } } },
  });
  const { body } = await fleet.call('read', '/api/scale?config_id=chat');
  expect(body).toMatchObject({ config_id: 'chat', wanted_workers: 0 });
  expect(await fleet.call('admin', '/api/fleet/spec', undefined, 'DELETE')).toMatchObject({
    status: 200,
    body: {
      applied: true,
      changes: expect.arrayContaining([expect.stringContaining('pool chat is gone')]),
    },
  });
  expect((await fleet.call('read', '/api/fleet/spec')).status).toBe(404);
});

it('what was used costs what its machine does, by who used it; what nobody launched is unknown', async () => {
  const fleet = new Fleet();
  await fleet.apply();
  await fleet.sync();
  await fleet.submit();
  const order = await fleet.order('launch');
  await fleet.result(order, { kind: 'launched', external_id: 'pod-2', price_per_hour: 3 });
  await fleet.sync([{ name: order.name, external_id: 'pod-2', started_at: Date.now() - 60_000 }]);
  const worker = await fleet.worker(order);
  const { job_id, fence_token } = await worker.job();
  const usage = { prompt_tokens: 10, completion_tokens: 20 };
  // Something has to be used.
  await setTimeout(50);
  worker.send({ type: 'job_result', job_id, fence_token, result: {}, usage });
  const answer = await until(async () => {
    const { body } = await fleet.call('read', '/api/usage?days=2&group_by=tenant');
    return (body.usage as object[]).length > 0 ? body : null;
  }, 'it is counted');
  expect(answer).toMatchObject({
    usage: [{ tenant: 'submit', input: 10, output: 20, dollars: expect.any(Number), unpriced_slot_ms: 0 }],
    idle: [{ config_id: 'chat', dollars: expect.any(Number) }],
  });
  const { dollars, slot_ms } = (answer.usage as { dollars: number; slot_ms: number }[])[0]!;
  expect(dollars).toBeCloseTo((3 * slot_ms) / 3_600_000, 8);

  const other = new Fleet();
  const played = await (await new RawWorker(road.url, 'admin').connect(other.id)).register('own', {
    config_id: 'chat',
  });
  await other.submit();
  const job = await played.job();
  await setTimeout(50);
  played.send({ type: 'job_result', job_id: job.job_id, fence_token: job.fence_token, result: {}, usage });
  const unknown = await until(async () => {
    const { body } = await other.call('read', '/api/usage');
    return (body.usage as object[]).length > 0 ? body : null;
  }, 'it is counted');
  expect(unknown).toMatchObject({
    total: { output: 20, dollars: null, unpriced_slot_ms: expect.any(Number) },
    idle: [],
  });
});
