import * as z from 'zod';
import type { Fetch } from '../../../src/process/http.ts';
import type { FakeMachine, FakeProvider, MachineState } from './fake-provider.ts';
import { type FakeRequest, fetchFrom, refuseIfDown } from './http.ts';

const NewInstance = z.object({
  image: z.string().min(1),
  label: z.string().max(256),
  disk: z.number().min(8),
  runtype: z.literal('args'),
  env: z.record(z.string(), z.string()),
  cancel_unavail: z.boolean().default(true),
  /** A bid per machine, of interruptible instances alone. */
  price: z.number().min(0.001).max(128).optional(),
});

const OPERATORS = {
  eq: (has: unknown, wanted: unknown) => has === wanted,
  neq: (has: unknown, wanted: unknown) => has !== wanted,
  gt: (has: unknown, wanted: unknown) => Number(has) > Number(wanted),
  gte: (has: unknown, wanted: unknown) => Number(has) >= Number(wanted),
  lt: (has: unknown, wanted: unknown) => Number(has) < Number(wanted),
  lte: (has: unknown, wanted: unknown) => Number(has) <= Number(wanted),
  in: (has: unknown, wanted: unknown) => (wanted as unknown[]).includes(has),
  notin: (has: unknown, wanted: unknown) => !(wanted as unknown[]).includes(has),
};
type Operator = keyof typeof OPERATORS;
const Filter = z.partialRecord(z.enum(Object.keys(OPERATORS) as Operator[]), z.unknown());

/** Everything else is a filter on a field of that name. */
const Search = z
  .object({
    order: z.array(z.tuple([z.string(), z.enum(['asc', 'desc'])])).default([]),
    limit: z.number().int().default(64),
    type: z.enum(['on-demand', 'bid', 'reserved']).default('on-demand'),
    allocated_storage: z.number().optional(),
  })
  .catchall(Filter);

type Call = 'create' | 'destroy' | 'list' | 'search' | 'other';

/** Least time between two requests of one kind, ms. */
const INTERVALS: Record<Call, number> = { create: 4500, destroy: 3000, list: 1000, search: 6000, other: 0 };
const PAGE = 25;
const OFFERS_OF_A_KIND = 100;
/** Ids of real instances are numbers. */
const FIRST_ID = 7_000_000;

/** The three states of the contract for each state of the container. */
const STATES: Record<MachineState, { actual_status: string; contract: string }> = {
  starting: { actual_status: 'loading', contract: 'running' },
  running: { actual_status: 'running', contract: 'running' },
  ended: { actual_status: 'exited', contract: 'running' },
  stopped: { actual_status: 'created', contract: 'stopped' },
  odd: { actual_status: 'hibernating', contract: 'running' },
};

/** Stands in for Vast's interface: a market of offers, each on a machine of its own, and instances on them. */
export class FakeVast {
  readonly fetch: Fetch;
  saysRetryAfter = false;
  /** The reported state of all instances; null: their real one. */
  actualStatus: string | null = null;
  /** Accepts to come whose offer somebody else has taken meanwhile. */
  taken = 0;
  /** The number of searches that are left for the day. */
  searchesLeft = Number.POSITIVE_INFINITY;
  /** Requests that came too early or were too many. */
  refused = 0;
  readonly #provider: FakeProvider;
  readonly #clock: { now(): number };
  readonly #key: string;
  readonly #lastCalls = new Map<Call, number>();
  readonly #gone = new Set<number>();

  /** @param clock the provider's, epoch ms */
  constructor(provider: FakeProvider, clock: { now(): number }, key: string) {
    this.#provider = provider;
    this.#clock = clock;
    this.#key = key;
    this.fetch = fetchFrom('/api', (request) => this.#answer(request));
  }

  #answer(request: FakeRequest): Response {
    const call = callOf(request);
    const fault = this.#provider.faultOf(call);
    refuseIfDown(fault);
    // Anybody may search.
    if (call !== 'search' && request.headers.get('authorization') !== `Bearer ${this.#key}`) {
      return json(401, { success: false, error: 'auth_error', msg: 'Invalid user key' });
    }
    const waitMs = Math.max(fault?.fault === 'throttled' ? fault.retryAfterMs : 0, this.#tooEarlyBy(call));
    if (waitMs > 0) return this.#tooMany(waitMs);
    this.#lastCalls.set(call, this.#clock.now());
    const id = Number(request.path.split('/')[3]);
    switch (call) {
      case 'search':
        return this.#search(request.body);
      case 'create':
        return this.#create(id, request.body);
      case 'list':
        return this.#list(request.query);
      case 'destroy':
        return this.#destroy(id);
      case 'other':
        return json(404, { success: false, error: 'not_found', msg: 'no such endpoint' });
    }
  }

  #tooEarlyBy(call: Call): number {
    const last = this.#lastCalls.get(call) ?? Number.NEGATIVE_INFINITY;
    return last + INTERVALS[call] - this.#clock.now();
  }

  #tooMany(waitMs: number): Response {
    this.refused++;
    const headers: Record<string, string> = this.saysRetryAfter
      ? { 'retry-after': String(Math.ceil(waitMs / 1000)) }
      : {};
    return new Response('API requests too frequent', { status: 429, headers });
  }

  #search(body: unknown): Response {
    if (this.searchesLeft <= 0) {
      const msg = 'Daily search quota exceeded. It resets at midnight UTC.';
      return json(429, { success: false, error: 'search_quota_exceeded', msg });
    }
    this.searchesLeft--;
    const search = Search.safeParse(body);
    if (!search.success)
      return json(400, { success: false, error: 'invalid_args', msg: search.error.message });
    const { accidents } = this.#provider;
    if (accidents.no_capacity > 0) {
      accidents.no_capacity--;
      return json(200, { offers: [] });
    }
    const { order, limit, type: _type, allocated_storage: _storage, ...filters } = search.data;
    const by = (order[0]?.[0] ?? 'dph_total') as 'dph_total' | 'min_bid';
    const offers = [...this.#provider.prices.keys()].flatMap((instance_type) =>
      [1, 2, 4, 8].flatMap((gpus) => this.#offersOf(instance_type, gpus)),
    );
    const found = offers.filter((offer) => passes(offer, filters)).toSorted((a, b) => a[by] - b[by]);
    return json(200, { offers: found.slice(0, limit) });
  }

  #instanceTypeOf(offer: number): string {
    return [...this.#provider.prices.keys()][Math.floor(offer / 10_000) - 1] ?? 'unknown';
  }

  /** Each on a machine of its own, none rented. */
  #offersOf(instance_type: string, gpus: number) {
    const instance_types = [...this.#provider.prices.keys()];
    const price = (this.#provider.prices.get(instance_type) ?? 1) * gpus;
    const rented = new Set(this.#provider.alive.map(({ request }) => (request as { offer: number }).offer));
    const first = 10_000 * (instance_types.indexOf(instance_type) + 1) + 1000 * gpus;
    return Array.from({ length: OFFERS_OF_A_KIND }, (_, index) => ({
      id: first + index,
      ask_contract_id: first + index,
      machine_id: 500_000 + first + index,
      gpu_name: instance_type,
      num_gpus: gpus,
      gpu_ram: 24_564,
      dph_total: price * (1 + index / 1000),
      dph_base: price * (1 + index / 1000),
      storage_cost: 0,
      // Those that are cheap on demand may be dear to bid for.
      min_bid: (price / 2) * (1 - index / 1000),
      cpu_cores: 16,
      cpu_cores_effective: 16,
      cpu_ram: 128_000,
      disk_space: 900,
      inet_down: 800,
      cuda_max_good: 13,
      compute_cap: 890,
      reliability: 0.995,
      reliability2: 0.995,
      direct_port_count: 100,
      verified: true,
      rentable: true,
      rented: false,
      external: false,
      geolocation: 'Sweden, SE',
      duration: 1_000_000,
    })).filter(({ id }) => !rented.has(id) && !this.#gone.has(id));
  }

  #create(offer: number, body: unknown): Response {
    const wanted = NewInstance.safeParse(body);
    if (!wanted.success)
      return json(400, { success: false, error: 'invalid_args', msg: wanted.error.message });
    const isRented = this.#provider.alive.some(
      ({ request }) => (request as { offer: number }).offer === offer,
    );
    if (this.taken > 0 || isRented || this.#gone.has(offer)) {
      if (this.taken > 0) this.taken--;
      this.#gone.add(offer);
      const msg = `ask ${offer} is not available`;
      return json(410, { success: false, error: 'no_such_ask', msg });
    }
    const { label, env, price: bid } = wanted.data;
    const created = this.#provider.create({
      name: label,
      instance_type: this.#instanceTypeOf(offer),
      env,
      price: bid,
      request: { offer, bid },
    });
    switch (created.reply) {
      case 'created':
      case 'name_taken':
        return json(200, { success: true, new_contract: numberOf(created.machine) });
      case 'no_capacity':
        return json(410, { success: false, error: 'no_such_ask', msg: 'not available' });
      case 'no_money':
        return json(402, { success: false, error: 'insufficient_credit', msg: 'Your credit is used up.' });
      case 'failed':
        return new Response('upstream timed out', { status: 502 });
      case 'created_with_error': {
        const new_contract = numberOf(created.machine);
        return json(400, { success: false, error: 'bid_too_low', msg: 'created stopped', new_contract });
      }
    }
  }

  #list(query: URLSearchParams): Response {
    const filters = JSON.parse(query.get('select_filters') ?? '{}') as { label?: { eq: string } };
    const label = filters.label?.eq;
    const all = this.#provider.list().filter(({ name }) => label === undefined || name === label);
    const after = Number(query.get('after_token') ?? 0);
    const limit = Math.min(Number(query.get('limit') ?? PAGE), PAGE);
    const rest = all.filter((machine) => numberOf(machine) > after);
    const page = rest.slice(0, limit);
    return json(200, {
      success: true,
      instances: page.map((machine) => this.#instance(machine)),
      instances_found: page.length,
      total_instances: all.length,
      label_counts: {},
      next_token: rest.length > limit ? String(numberOf(page.at(-1)!)) : null,
    });
  }

  #instance(machine: FakeMachine): object {
    const { actual_status, contract } = STATES[this.#provider.stateOf(machine)];
    const { offer, bid } = machine.request as { offer: number; bid?: number };
    return {
      id: numberOf(machine),
      machine_id: 500_000 + offer,
      label: machine.name,
      actual_status: this.actualStatus ?? actual_status,
      cur_state: contract,
      next_state: contract,
      // Whoever was outbid still wants the instance to run.
      intended_status: bid === undefined ? contract : 'running',
      status_msg: machine.ended?.detail || null,
      dph_total: machine.price,
      is_bid: bid !== undefined,
      start_date: this.#provider.timeOf(machine.createdAt) / 1000,
      extra_env: Object.entries(machine.env),
    };
  }

  #destroy(id: number): Response {
    switch (this.#provider.destroy(`fake-${id - FIRST_ID}`)) {
      case 'destroyed':
      case 'leaving':
        return json(200, { success: true });
      case 'not_found':
        return json(404, { success: false, error: 'no_such_instance', msg: `Instance ${id} not found.` });
      case 'failed':
        // This answer was seen in the field.
        return this.#tooMany(INTERVALS.destroy);
    }
  }
}

function passes(offer: Record<string, unknown>, filters: Record<string, Partial<Record<Operator, unknown>>>) {
  return Object.entries(filters).every(([field, filter]) =>
    Object.entries(filter).every(([operator, wanted]) =>
      OPERATORS[operator as Operator](offer[field], wanted),
    ),
  );
}

function callOf({ method, path }: FakeRequest): Call {
  if (method === 'POST' && path === '/v0/bundles/') return 'search';
  if (method === 'PUT' && /^\/v0\/asks\/\d+\/$/.test(path)) return 'create';
  if (method === 'GET' && path === '/v1/instances/') return 'list';
  return method === 'DELETE' && /^\/v0\/instances\/\d+\/$/.test(path) ? 'destroy' : 'other';
}

function numberOf({ id }: FakeMachine): number {
  return FIRST_ID + Number(id.replace('fake-', ''));
}

function json(status: number, body: object): Response {
  return new Response(JSON.stringify(body), { status, headers: { 'content-type': 'application/json' } });
}
