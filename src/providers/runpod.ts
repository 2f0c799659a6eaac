import * as z from 'zod';
import type { LaunchOutcome, ListedMachine } from '../scheduler/rpc.ts';
import {
  DEFAULT_DISK_GB,
  type Driver,
  type DriverPorts,
  imageOf,
  type LaunchRequest,
  type MachineKey,
  type MakeDriver,
} from './driver.ts';
import { type Answer, CALL_LIMIT_MS, keyOf, lookAfter, Pace, RestApi, unknownFrom } from './rest.ts';

/** The fields of a pod that this driver reads, by RunPod's schema of REST v2; others may come and go. */
const Pod = z.object({
  id: z.string().min(1),
  name: z.string(),
  status: z.string(),
  /** The current price of the pod, US dollars an hour. */
  cost: z.number().nullish(),
  createdAt: z.string().nullish(),
  startedAt: z.string().nullish(),
  runtime: z.object({ uptime: z.number().nullish() }).nullish(),
});
type Pod = z.output<typeof Pod>;
const PodList = z.object({
  pods: z.array(Pod),
  // RunPod's other lists have pages. A part of the pods is not a list, so an answer that announces more pages is
  // refused.
  pagination: z.object({ hasNextPage: z.literal(false) }).nullish(),
});

const Catalog = z.object({
  gpus: z.array(
    z.object({
      id: z.string(),
      /** The price of one GPU, US dollars an hour. */
      price: z.object({ secure: z.number().nullish(), community: z.number().nullish() }),
      availability: z.string().nullish(),
    }),
  ),
});
type Catalog = z.output<typeof Catalog>;

const STATES: Record<string, ListedMachine['state']> = {
  PROVISIONING: 'starting',
  STARTING: 'starting',
  RUNNING: 'running',
  // An exited pod still pays for its disk, and may come back without a GPU.
  EXITED: 'ended',
  ERROR: 'ended',
  TERMINATED: 'ended',
};

/**
 * The text of a 400 for an instance type that is out of stock. Every other 400 means that the request breaks a rule.
 */
const OUT_OF_STOCK = /no longer any instances|capacity|in stock|not available|unavailable|no available/i;

/** The most variables that RunPod takes. */
const MAX_VARIABLES = 50;
/** The path where users of RunPod's images expect a network volume, and where the worker looks for one. */
const VOLUME_PATH = '/runpod-volume';
const CATALOG_FOR_MS = 60_000;
/** The pause between looks by name after a create with an unknown outcome, ms. */
const LOOK_PAUSE_MS = 2000;

type Spec = Parameters<MakeDriver<'runpod'>>[0];

export const makeRunpod: MakeDriver<'runpod'> = (spec, ports) => {
  const key = keyOf(ports, spec.api_key_variable, 'the RunPod API key with which this launcher starts pods');
  return new RunPod(spec, ports, key);
};

/**
 * A driver for pods of RunPod, by its REST interface v2: a call names one GPU type, there is no idempotency key, and
 * names are not unique. So a create is never repeated before the list was searched for its name, and a pod is only ever
 * terminated: a stopped one keeps paying for its disk. RunPod restarts a container that ended, whatever its exit code,
 * so pods do not end by themselves: the scheduler's start deadline ends those that never become ready.
 */
class RunPod implements Driver {
  readonly #spec: Spec;
  readonly #ports: DriverPorts;
  readonly #api: RestApi;
  readonly #pace: Pace;
  /** The catalogs by the number of GPUs for which RunPod reports stock. */
  readonly #catalogs = new Map<number, { askedAt: number; gpus: Promise<Catalog['gpus']> }>();

  constructor(spec: Spec, ports: DriverPorts, token: string) {
    this.#spec = spec;
    this.#ports = ports;
    this.#api = new RestApi(ports, {
      provider: 'RunPod',
      url: spec.url ?? 'https://api.runpod.io/v2',
      token,
    });
    // All limits are per account and minute, hour or day: RunPod reports how much of them is left.
    this.#pace = new Pace(ports.clock, 0);
  }

  async launch(request: LaunchRequest): Promise<LaunchOutcome> {
    const until = this.#ports.clock.now() + CALL_LIMIT_MS;
    const fault = faultOf(request);
    if (fault) return { kind: 'rejected', detail: fault };
    try {
      if (request.may_exist) {
        const pod = await this.#find(request.name, until);
        if (pod) return launched(pod);
      }
      const scarcity = await this.#scarcityOf(request, until);
      if (scarcity) return { kind: 'no_capacity', detail: scarcity };
    } catch (error) {
      // This call created nothing.
      return unknownFrom(error);
    }
    return await this.#create(request, until);
  }

  async #create(request: LaunchRequest, until: number): Promise<LaunchOutcome> {
    let answer: Answer;
    try {
      answer = await this.#ask('POST', '/pods', until, this.#bodyOf(request));
    } catch (error) {
      return await this.#lookAfter(request.name, until, error);
    }
    const said = this.#api.said('the request for a pod', answer);
    switch (answer.status) {
      case 422:
      case 404:
        return { kind: 'rejected', detail: said };
      case 401:
        return { kind: 'rejected', detail: `${said} (${this.#spec.api_key_variable})` };
      case 402:
        return { kind: 'rejected', detail: `${said} (RunPod asks for the money of an hour to be there)` };
      case 400:
        return { kind: OUT_OF_STOCK.test(said) ? 'no_capacity' : 'rejected', detail: said };
      case 403:
        return { kind: 'no_capacity', detail: `${said} (this account may not use ${request.instance_type})` };
      case 429:
        return { kind: 'unknown', detail: said };
    }
    try {
      return await this.#accept(request, this.#api.read('the request for a pod', answer, Pod), until);
    } catch (error) {
      return await this.#lookAfter(request.name, until, error);
    }
  }

  /** Checks the price of a new pod: the catalog has list prices, but this is the pod's actual cost. */
  async #accept(request: LaunchRequest, pod: Pod, until: number): Promise<LaunchOutcome> {
    const limit = request.price_per_hour;
    if (limit === null || pod.cost == null || pod.cost <= limit) return launched(pod);
    const ended = await this.#delete(pod.id, until);
    if (ended.kind !== 'terminated') return launched(pod);
    const detail = `RunPod bills $${pod.cost} an hour for ${request.instance_type}, more than $${limit}; terminated`;
    return { kind: 'no_capacity', detail };
  }

  async #lookAfter(name: string, until: number, cause: unknown): Promise<LaunchOutcome> {
    return await lookAfter(this.#ports.clock, LOOK_PAUSE_MS, cause, async () => {
      const pod = await this.#find(name, until);
      return pod && launched(pod);
    });
  }

  /** Returns the oldest pod of that name. @throws NoAnswerError */
  async #find(name: string, until: number): Promise<Pod | null> {
    const pods = (await this.#pods(until)).filter((pod) => pod.name === name && pod.status !== 'TERMINATED');
    return pods.toSorted((a, b) => (timeOf(a.createdAt) ?? 0) - (timeOf(b.createdAt) ?? 0))[0] ?? null;
  }

  async #pods(until: number): Promise<Pod[]> {
    const answer = await this.#ask('GET', '/pods', until);
    return this.#api.read('the list of pods', answer, PodList).pods;
  }

  async list(prefix: string): Promise<ListedMachine[]> {
    const pods = await this.#pods(this.#ports.clock.now() + CALL_LIMIT_MS);
    return pods.filter(({ name }) => name.startsWith(prefix)).map((pod) => machineOf(pod));
  }

  async terminate({ name, external_id }: MachineKey): Promise<LaunchOutcome> {
    const until = this.#ports.clock.now() + CALL_LIMIT_MS;
    try {
      const ids = external_id
        ? [external_id]
        : (await this.#pods(until)).filter((pod) => pod.name === name).map(({ id }) => id);
      for (const id of ids) {
        const outcome = await this.#delete(id, until);
        if (outcome.kind !== 'terminated') return outcome;
      }
      return { kind: 'terminated' };
    } catch (error) {
      return unknownFrom(error);
    }
  }

  async #delete(id: string, until: number): Promise<LaunchOutcome> {
    try {
      const answer = await this.#ask('DELETE', `/pods/${encodeURIComponent(id)}`, until);
      if (answer.status === 404 || (answer.status >= 200 && answer.status < 300))
        return { kind: 'terminated' };
      return { kind: 'unknown', detail: this.#api.said(`the termination of pod ${id}`, answer) };
    } catch (error) {
      return unknownFrom(error);
    }
  }

  async prices(instance_types: string[]): Promise<{ instance_type: string; price_per_hour: number }[]> {
    const gpus = await this.#gpus(1, this.#ports.clock.now() + CALL_LIMIT_MS);
    return instance_types.flatMap((instance_type) => {
      const price = this.#priceOf(gpus.find(({ id }) => id === instance_type));
      return price === null ? [] : [{ instance_type, price_per_hour: price }];
    });
  }

  /**
   * Returns why a pod of this instance type is not worth a request, by the catalog, which is no reservation. Null:
   * nothing speaks against it; for an unknown instance type, or without the catalog, the create decides.
   */
  async #scarcityOf(
    { instance_type, gpus, price_per_hour }: LaunchRequest,
    until: number,
  ): Promise<string | null> {
    const catalog = await this.#gpus(gpus, until).catch(() => []);
    const gpu = catalog.find(({ id }) => id === instance_type);
    if (gpu?.availability === 'NONE') return `RunPod's catalog has no ${instance_type} in stock`;
    const price = this.#priceOf(gpu);
    if (price === null || price_per_hour === null || price * gpus <= price_per_hour) return null;
    return `RunPod asks $${price * gpus} an hour for ${gpus} × ${instance_type}, more than $${price_per_hour}`;
  }

  #priceOf(gpu: Catalog['gpus'][number] | undefined): number | null {
    const price = this.#spec.cloud === 'SECURE' ? gpu?.price.secure : gpu?.price.community;
    // The price is 0 if that cloud has none of the GPUs.
    return price || null;
  }

  /** Returns the catalog, which is at most a minute old. */
  #gpus(count: number, until: number): Promise<Catalog['gpus']> {
    const now = this.#ports.clock.now();
    const known = this.#catalogs.get(count);
    if (known && now - known.askedAt < CATALOG_FOR_MS) return known.gpus;
    const gpus = this.#readCatalog(count, until);
    this.#catalogs.set(count, { askedAt: now, gpus });
    gpus.catch(() => this.#catalogs.delete(count));
    return gpus;
  }

  async #readCatalog(count: number, until: number): Promise<Catalog['gpus']> {
    const query = `include=AVAILABILITY&product=POD&cloud=${this.#spec.cloud}&count=${count}`;
    const answer = await this.#ask('GET', `/catalog/gpus?${query}`, until);
    return this.#api.read('the catalog', answer, Catalog).gpus;
  }

  #bodyOf({ name, instance_type, gpus, disk_gb, image, env }: LaunchRequest) {
    const { cloud, data_centers, network_volume, min_cuda_version, registry } = this.#spec;
    return {
      name,
      cloud,
      image: imageOf({ image, env }),
      // No `entrypoint` and no `args`: the image starts unchanged. A host with an older driver is discovered only when
      // the engine starts there, and is billed until then.
      gpu: { id: instance_type, count: gpus, minCudaVersion: min_cuda_version },
      disk: disk_gb ?? DEFAULT_DISK_GB,
      env,
      ...(registry ? { registry } : {}),
      ...(data_centers ? { dataCenterIds: data_centers } : {}),
      ...(network_volume ? { mounts: { network: [{ volumeId: network_volume, path: VOLUME_PATH }] } } : {}),
    };
  }

  #ask(method: 'GET' | 'POST' | 'DELETE', path: string, until: number, body?: unknown): Promise<Answer> {
    return this.#api.ask({ method, path, body, until, pace: this.#pace });
  }
}

function faultOf({ gpus, env }: LaunchRequest): string | null {
  if (gpus < 1) return 'on RunPod a worker needs at least one GPU: set gpus of its machine to 1 or more';
  const count = Object.keys(env).length;
  if (count <= MAX_VARIABLES) return null;
  return `the worker has ${count} environment variables; RunPod takes at most ${MAX_VARIABLES}: shorten env and secrets of its pool`;
}

function machineOf(pod: Pod): ListedMachine {
  const state = STATES[pod.status] ?? 'unknown';
  return {
    external_id: pod.id,
    name: pod.name,
    state,
    created_at: timeOf(pod.createdAt),
    started_at: timeOf(pod.startedAt),
    ended_at: null,
    price_per_hour: pod.cost ?? null,
    exit_code: null,
    detail: state === 'running' || state === 'starting' ? null : `RunPod says ${pod.status}`,
  };
}

function launched(pod: Pod): LaunchOutcome {
  return { kind: 'launched', external_id: pod.id, price_per_hour: pod.cost ?? null };
}

/** Reads a time. @returns epoch ms, or null */
function timeOf(text: string | null | undefined): number | null {
  const at = Date.parse(text ?? '');
  return Number.isNaN(at) ? null : at;
}
