import * as z from 'zod';
import type { Fetch } from '../../process/http.ts';
import type { FakeMachine, FakeProvider, MachineState } from './fake-provider.ts';
import { type FakeRequest, fetchFrom, refuseIfDown } from './http.ts';

const NewInstance = z.object({
  image: z.string().min(1),
  label: z.string().max(256),
  disk: z.number().min(8),
  runtype: z.literal('args'),
  env: z.record(z.string(), z.string()),
  cancel_unavail: z.literal(true),
});

const OPERATORS = z.enum(['eq', 'neq', 'gt', 'gte', 'lt', 'lte', 'in', 'notin']);

const Search = z
  .object({
    gpu_name: z.object({ in: z.array(z.string()) }),
    num_gpus: z.object({ eq: z.number().int().min(1) }),
    dph_total: z.object({ lte: z.number() }).optional(),
    order: z.array(z.tuple([z.string(), z.enum(['asc', 'desc'])])),
    limit: z.number().int(),
    type: z.enum(['on-demand', 'bid', 'reserved']),
    allocated_storage: z.number(),
  })
  .catchall(z.partialRecord(OPERATORS, z.unknown()));

type Call = 'create' | 'destroy' | 'list' | 'search' | 'other';

/** Least time between two requests of one kind, ms. */
const INTERVALS: Record<Call, number> = { create: 4500, destroy: 3000, list: 1000, search: 6000, other: 0 };
const PAGE = 25;
const OFFERS_OF_A_KIND = 100;
/** Ids of real instances are numbers. */
const FIRST_ID = 7_000_000;

/** What the container does, and the three states of the contract. */
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
  /** Accepts to come whose offer somebody else has taken meanwhile. */
  taken = 0;
  /** Of the day. */
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
    if (request.headers.get('authorization') !== `Bearer ${this.#key}`) {
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
    const { gpu_name, num_gpus, dph_total, limit } = search.data;
    const offers = gpu_name.in.flatMap((kind) => this.#offersOf(kind, num_gpus.eq));
    const affordable = offers.filter(
      (offer) => offer.dph_total <= (dph_total?.lte ?? Number.POSITIVE_INFINITY),
    );
    return json(200, { offers: affordable.slice(0, limit) });
  }

  #offersOf(kind: string, gpus: number) {
    const price = (this.#provider.prices.get(kind) ?? 1) * gpus;
    const rented = new Set(this.#provider.alive.map(({ request }) => (request as { offer: number }).offer));
    return Array.from({ length: OFFERS_OF_A_KIND }, (_, index) => ({
      id: 1000 + index,
      ask_contract_id: 1000 + index,
      machine_id: 100 + index,
      gpu_name: kind,
      num_gpus: gpus,
      dph_total: price * (1 + index / 1000),
      inet_down: 800,
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
    const { label, env } = wanted.data;
    const created = this.#provider.create({ name: label, kind: 'RTX 4090', env, request: { offer } });
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
    const { offer } = machine.request as { offer: number };
    return {
      id: numberOf(machine),
      machine_id: offer - 900,
      label: machine.name,
      actual_status,
      cur_state: contract,
      next_state: contract,
      intended_status: contract,
      status_msg: machine.ended?.detail || null,
      dph_total: machine.price,
      start_date: this.#provider.timeOf(machine.createdAt) / 1000,
      extra_env: Object.entries(machine.env),
    };
  }

  #destroy(id: number): Response {
    switch (this.#provider.destroy(`fake-${id - FIRST_ID}`)) {
      case 'destroyed':
        return json(200, { success: true });
      case 'not_found':
        return json(404, { success: false, error: 'no_such_instance', msg: `Instance ${id} not found.` });
      case 'failed':
        // As it was seen in the field.
        return this.#tooMany(INTERVALS.destroy);
    }
  }
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
