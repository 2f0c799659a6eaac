import * as z from 'zod';
import type { Fetch } from '../../../src/process/http.ts';
import type { FakeMachine, FakeProvider, MachineState } from './fake-provider.ts';
import { type FakeRequest, fetchFrom, refuseIfDown } from './http.ts';

/** RunPod refuses what it does not know. */
const NewPod = z.strictObject({
  name: z.string().min(1),
  image: z.string().min(1),
  cloud: z.enum(['SECURE', 'COMMUNITY']).default('SECURE'),
  gpu: z.strictObject({
    id: z.string(),
    count: z.number().int().min(1).default(1),
    minCudaVersion: z
      .string()
      .regex(/^\d+\.\d+$/)
      .optional(),
  }),
  registry: z.string().nullable().default(null),
  disk: z.number().int().min(1).optional(),
  env: z
    .record(z.string(), z.string())
    .refine((env) => Object.keys(env).length <= 50, 'at most 50 environment variables'),
  args: z.string().optional(),
  dataCenterIds: z.array(z.string()).optional(),
  mounts: z
    .strictObject({ network: z.array(z.strictObject({ volumeId: z.string(), path: z.string() })).max(1) })
    .optional(),
});
type NewPod = z.output<typeof NewPod>;

const STATUSES: Record<MachineState, string> = {
  starting: 'STARTING',
  running: 'RUNNING',
  ended: 'EXITED',
  stopped: 'EXITED',
  odd: 'HIBERNATING',
};

const NO_INSTANCES = 'There are no longer any instances available with the requested specifications.';

const TITLES: Record<number, string> = {
  400: 'Bad Request',
  401: 'Unauthorized',
  402: 'Payment Required',
  403: 'Forbidden',
  404: 'Not Found',
  422: 'Unprocessable Entity',
  429: 'Too Many Requests',
  500: 'Internal Server Error',
  503: 'Service Unavailable',
};

/** Stands in for RunPod's REST v2: pods and the catalog of GPUs, with the accidents of `provider`. */
export class FakeRunpod {
  readonly fetch: Fetch;
  /** Whether a 429 says how long to wait. */
  saysRetryAfter = true;
  /** The header about the account's quota in all answers; null: they have none. */
  rateLimit: string | null = '"minute";r=59;t=30, "hour";r=2800;t=1812';
  /** CUDA version that the drivers of its hosts have. */
  hostCuda = '12.8';
  /** Pods of a list; the documented interface has one page. */
  pageSize = Number.POSITIVE_INFINITY;
  /** Answers 200 with something else than was documented. */
  answersOddly = false;
  /** Kinds that this account may not use: 403. */
  readonly forbidden = new Set<string>();
  /** Network volumes in data centers that the request does not name: 400. */
  readonly volumesElsewhere = new Set<string>();
  /** The stock in the catalog; an instance type that is missing is in good supply. */
  readonly availability = new Map<string, 'NONE' | 'LOW' | 'MEDIUM' | 'HIGH'>();
  readonly #provider: FakeProvider;
  readonly #clock: { now(): number };
  readonly #key: string;

  /** @param clock the provider's, epoch ms */
  constructor(provider: FakeProvider, clock: { now(): number }, key: string) {
    this.#provider = provider;
    this.#clock = clock;
    this.#key = key;
    this.fetch = fetchFrom('/v2', (request) => {
      const response = this.#answer(request);
      if (this.rateLimit) response.headers.set('ratelimit', this.rateLimit);
      return response;
    });
  }

  #answer(request: FakeRequest): Response {
    const { method, path, headers } = request;
    const [room, id] = path.slice(1).split('/');
    const kind = room === 'catalog' ? 'catalog' : (VERBS[method] ?? 'other');
    const fault = this.#provider.faultOf(kind);
    refuseIfDown(fault);
    if (headers.get('authorization') !== `Bearer ${this.#key}`) return problem(401, 'invalid bearer token');
    if (fault?.fault === 'throttled') {
      const seconds = Math.ceil(fault.retryAfterMs / 1000);
      const response = problem(429, 'rate limit exceeded');
      if (this.saysRetryAfter) response.headers.set('retry-after', String(seconds));
      return response;
    }
    if (this.answersOddly) return json(200, { machines: [] });
    if (room === 'catalog') return json(200, { gpus: this.#gpus() });
    if (room !== 'pods') return problem(404, 'resource not found');
    if (method === 'POST' && !id) return this.#create(request.body);
    if (method === 'GET' && !id) return json(200, this.#list());
    if (method === 'DELETE' && id) return this.#destroy(id);
    return problem(405, 'the request method is not supported for the target path');
  }

  #create(body: unknown): Response {
    const wanted = NewPod.safeParse(body);
    if (!wanted.success) {
      const errors = wanted.error.issues.map(({ path, message }) => `$.${path.join('.')}: ${message}`);
      return problem(422, 'Request validation failed.', errors);
    }
    const { name, gpu, env } = wanted.data;
    if (this.forbidden.has(gpu.id)) return problem(403, 'access denied');
    const [volume] = wanted.data.mounts?.network ?? [];
    if (volume && this.volumesElsewhere.has(volume.volumeId))
      return problem(400, `network volume ${volume.volumeId} is in another data center`);
    if (Number(gpu.minCudaVersion ?? 0) > Number(this.hostCuda)) return problem(400, NO_INSTANCES);
    const created = this.#provider.create({ name, instance_type: gpu.id, env, request: wanted.data });
    switch (created.reply) {
      case 'created':
      case 'name_taken':
        return json(201, this.#pod(created.machine));
      case 'no_capacity':
        return problem(400, NO_INSTANCES);
      case 'no_money':
        return problem(402, 'Your balance does not cover an hour of this pod.');
      case 'failed':
        return problem(500, 'internal error');
      case 'created_with_error':
        return problem(503, `pod ${created.machine.id} could not be started`);
    }
  }

  #list(): object {
    const pods = this.#provider.list().map((one) => this.#pod(one));
    if (pods.length <= this.pageSize) return { pods };
    return { pods: pods.slice(0, this.pageSize), pagination: { nextCursor: 'next', hasNextPage: true } };
  }

  #destroy(id: string): Response {
    switch (this.#provider.destroy(id)) {
      case 'destroyed':
      case 'leaving':
        return new Response(null, { status: 204 });
      case 'not_found':
        return problem(404, 'pod not found');
      case 'failed':
        return problem(500, 'internal error');
    }
  }

  #pod(machine: FakeMachine): object {
    const state = this.#provider.stateOf(machine);
    const wanted = machine.request as NewPod;
    const instant = (at: number) => new Date(this.#provider.timeOf(at)).toISOString();
    const uptime = Math.floor((this.#clock.now() - machine.startedAt) / 1000);
    return {
      id: machine.id,
      name: machine.name,
      status: STATUSES[state],
      actions: state === 'running' ? ['stop', 'restart', 'terminate'] : ['terminate'],
      image: wanted.image,
      args: wanted.args ?? '',
      disk: wanted.disk ?? 20,
      mounts: wanted.mounts ?? {},
      ports: [],
      env: machine.env,
      registry: wanted.registry,
      cloud: wanted.cloud,
      gpu: wanted.gpu,
      dataCenterId: wanted.dataCenterIds?.[0] ?? 'EU-RO-1',
      cudaVersion: this.hostCuda,
      ssh: { proxy: null, direct: null },
      template: null,
      cost: state === 'ended' || state === 'stopped' ? 0 : machine.price * wanted.gpu.count,
      locked: false,
      runtime: state === 'running' ? { uptime, gpus: [], ports: [] } : null,
      createdAt: instant(machine.createdAt),
      startedAt: state === 'running' ? instant(machine.startedAt) : null,
      globalNetworking: { enabled: false },
    };
  }

  #gpus(): object[] {
    return [...this.#provider.prices].map(([id, price]) => ({
      id,
      name: id.replace(/^NVIDIA (GeForce )?/, ''),
      pool: null,
      manufacturer: 'NVIDIA',
      memory: 24,
      secure: true,
      community: true,
      price: { secure: price, community: price },
      maxCount: { secure: 8, community: 4 },
      availability: this.availability.get(id) ?? 'HIGH',
    }));
  }
}

const VERBS: Record<string, string> = { POST: 'create', GET: 'list', DELETE: 'destroy' };

function json(status: number, body: unknown, type = 'application/json'): Response {
  return new Response(JSON.stringify(body), { status, headers: { 'content-type': type } });
}

/** RFC 9457. */
function problem(status: number, detail: string, errors?: string[]): Response {
  const body = { title: TITLES[status] ?? 'Error', status, detail, ...(errors ? { errors } : {}) };
  return json(status, body, 'application/problem+json');
}
