import * as z from 'zod';
import { fieldsOf } from '../../protocol/fields.ts';
import type { LaunchOutcome, ListedMachine } from '../../scheduler/rpc.ts';
import {
  DEFAULT_DISK_GB,
  type Driver,
  type DriverPorts,
  imageOf,
  type LaunchRequest,
  type MachineKey,
  type MakeDriver,
} from '../driver.ts';
import {
  type Answer,
  CALL_LIMIT_MS,
  keyOf,
  lookAfter,
  NoAnswerError,
  Pace,
  RestApi,
  unknownFrom,
} from '../rest.ts';
import { machineOf, StartingMachines, VastInstance } from './instances.ts';
import { BadSearchError, type Offer, OfferMarket } from './offers.ts';

const Created = z.object({ success: z.literal(true), new_contract: z.number().int() });
const Page = z.object({ instances: z.array(VastInstance), next_token: z.string().nullish() });

/** The least interval between requests of one kind that Vast demands, ms; requests that come sooner cause a pause. */
const CREATE_EVERY_MS = 4500;
const CREATE_PENALTY_MS = 12_000;
const DESTROY_EVERY_MS = 3000;
const LIST_EVERY_MS = 1000;
/** The longest page that Vast gives. */
const PAGE = 25;
/** The most characters of all names and values together that Vast takes. */
const MAX_ENV_CHARACTERS = 32_768;
/** The smallest disk that Vast takes, GB. */
const MIN_DISK_GB = 8;

export const makeVast: MakeDriver<'vast'> = (spec, ports) => {
  const key = keyOf(ports, spec.api_key_variable, 'the Vast API key with which this launcher rents machines');
  return new Vast(spec, ports, key);
};

/**
 * A driver for machines of Vast's market: it searches, accepts an offer, and destroys instances. The label is the
 * idempotency key. An offer can be rented once, so the next one is tried only if the one before is known not to have
 * been rented; and since Vast may answer with an error and create the instance all the same, every error is searched
 * for the id of an instance.
 */
class Vast implements Driver {
  readonly #spec: Parameters<MakeDriver<'vast'>>[0];
  readonly #ports: DriverPorts;
  readonly #api: RestApi;
  readonly #market: OfferMarket;
  readonly #starting = new StartingMachines();
  readonly #paces: Record<'create' | 'destroy' | 'list', Pace>;

  constructor(spec: Parameters<MakeDriver<'vast'>>[0], ports: DriverPorts, token: string) {
    this.#spec = spec;
    this.#ports = ports;
    this.#api = new RestApi(ports, {
      provider: 'Vast',
      url: spec.url ?? 'https://console.vast.ai/api',
      token,
    });
    this.#market = new OfferMarket(ports, this.#api, spec.search);
    this.#paces = {
      create: new Pace(ports.clock, CREATE_EVERY_MS, CREATE_PENALTY_MS),
      destroy: new Pace(ports.clock, DESTROY_EVERY_MS),
      list: new Pace(ports.clock, LIST_EVERY_MS),
    };
  }

  async launch(request: LaunchRequest): Promise<LaunchOutcome> {
    const until = this.#ports.clock.now() + CALL_LIMIT_MS;
    const fault = faultOf(request);
    if (fault) return { kind: 'rejected', detail: fault };
    try {
      if (request.may_exist) {
        const [found] = await this.#labelled(request.name, until);
        if (found) return launched(found.id, found.dph_total ?? null);
      }
      return await this.#rentCheapest(request, until);
    } catch (error) {
      if (error instanceof BadSearchError) return { kind: 'rejected', detail: error.message };
      return unknownFrom(error);
    }
  }

  async #rentCheapest(request: LaunchRequest, until: number): Promise<LaunchOutcome> {
    const { instance_type, gpus, price_per_hour, spot } = request;
    const wanted = { instance_type, gpus, price_per_hour, spot, disk_gb: diskOf(request) };
    for (let taken = 0; ; taken++) {
      const offer = await this.#market.claim(wanted, until);
      if (!offer) return { kind: 'no_capacity', detail: this.#scarcity(request, taken) };
      const outcome = await this.#rent(request, offer, until);
      if (outcome !== 'taken') return outcome;
    }
  }

  #scarcity({ instance_type, gpus, price_per_hour, spot }: LaunchRequest, taken: number): string {
    const what = `${gpus} ×${spot ? ' interruptible' : ''} ${instance_type}${price_per_hour === null ? '' : ` up to $${price_per_hour} an hour`}`;
    const why = this.#market.isUsedUp ? ', and no search is allowed until midnight UTC' : '';
    const gone = taken === 0 ? '' : ` (${taken} were taken by others meanwhile)`;
    return `Vast has no more offers of ${what} that pass the filters${gone}${why}`;
  }

  /** Rents an offer. @returns `taken` if another customer has the offer, and nothing was created */
  async #rent(request: LaunchRequest, offer: Offer, until: number): Promise<LaunchOutcome | 'taken'> {
    const bid = request.spot ? bidFor(offer, request) : null;
    let answer: Answer;
    try {
      answer = await this.#ask('PUT', `/v0/asks/${offer.id}/`, 'create', until, bodyOf(request, bid));
    } catch (error) {
      return await this.#lookAfter(request.name, until, error);
    }
    const created = Created.safeParse(answer.body);
    if (answer.status === 200 && created.success) {
      return launched(created.data.new_contract, bid ?? offer.dph_total);
    }
    return await this.#afterError(request, answer, until);
  }

  async #afterError(request: LaunchRequest, answer: Answer, until: number): Promise<LaunchOutcome | 'taken'> {
    const said = this.#api.said('the request for an instance', answer);
    const { new_contract, error, msg } = fieldsOf(answer.body);
    if (typeof new_contract === 'number') {
      const ended = await this.#destroy(new_contract, until);
      if (ended.kind === 'terminated') return { kind: 'no_capacity', detail: `${said}; destroyed` };
      return {
        kind: 'unknown',
        detail: `${said}; instance ${new_contract} exists and could not be destroyed`,
      };
    }
    const { status } = answer;
    if (error === 'no_such_ask' || status === 404 || status === 410) return 'taken';
    if (status === 402 || /credit|balance|funds/i.test(`${error} ${msg}`)) {
      return { kind: 'rejected', detail: `${said} (the balance does not cover it)` };
    }
    if (status === 401 || status === 403) {
      return { kind: 'rejected', detail: `${said} (${this.#spec.api_key_variable})` };
    }
    if (status === 429) return { kind: 'unknown', detail: said };
    if (status >= 400 && status < 500) return { kind: 'rejected', detail: said };
    return await this.#lookAfter(request.name, until, new NoAnswerError(said));
  }

  async #lookAfter(name: string, until: number, cause: unknown): Promise<LaunchOutcome> {
    return await lookAfter(this.#ports.clock, 2 * LIST_EVERY_MS, cause, async () => {
      const [found] = await this.#labelled(name, until);
      return found ? launched(found.id, found.dph_total ?? null) : null;
    });
  }

  async list(prefix: string): Promise<ListedMachine[]> {
    const instances = await this.#instances({}, this.#ports.clock.now() + CALL_LIMIT_MS);
    const ours = instances.filter(({ label }) => label?.startsWith(prefix));
    const machines = ours.map((instance) => machineOf(instance));
    this.#starting.keep(ours, machines);
    return machines;
  }

  async #labelled(name: string, until: number): Promise<VastInstance[]> {
    const instances = await this.#instances({ label: { eq: name } }, until);
    return instances.filter(({ label }) => label === name).toSorted((a, b) => a.id - b.id);
  }

  /** Returns the instances of all pages. @throws NoAnswerError when one is missing */
  async #instances(filters: object, until: number): Promise<VastInstance[]> {
    const found = new Map<number, VastInstance>();
    const query = new URLSearchParams({ limit: String(PAGE), select_filters: JSON.stringify(filters) });
    while (true) {
      const answer = await this.#ask('GET', `/v1/instances/?${query}`, 'list', until);
      const { instances, next_token } = this.#api.read('the list of instances', answer, Page);
      for (const instance of instances) found.set(instance.id, instance);
      if (!next_token) return [...found.values()];
      query.set('after_token', next_token);
    }
  }

  async terminate({ name, external_id }: MachineKey): Promise<LaunchOutcome> {
    const until = this.#ports.clock.now() + CALL_LIMIT_MS;
    try {
      const ids = external_id
        ? [Number(external_id)]
        : (await this.#labelled(name, until)).map((instance) => instance.id);
      for (const id of ids) {
        const slow = this.#starting.slowMachineOf(id, this.#ports.clock.now());
        if (slow !== null) this.#market.avoid(slow);
        const outcome = await this.#destroy(id, until);
        if (outcome.kind !== 'terminated') return outcome;
      }
      return { kind: 'terminated' };
    } catch (error) {
      return unknownFrom(error);
    }
  }

  /** Destroys an instance: a stopped one would keep paying for its disk. */
  async #destroy(id: number, until: number): Promise<LaunchOutcome> {
    try {
      const answer = await this.#ask('DELETE', `/v0/instances/${id}/`, 'destroy', until);
      const { success, error } = fieldsOf(answer.body);
      const isDone = answer.status === 200 && success === true;
      if (isDone || answer.status === 404 || error === 'no_such_instance') return { kind: 'terminated' };
      return { kind: 'unknown', detail: this.#api.said(`the destruction of instance ${id}`, answer) };
    } catch (error) {
      return unknownFrom(error);
    }
  }

  /** Returns the price of the newest cheapest offer of one GPU: searches are limited, so an old answer will do. */
  async prices(instance_types: string[]): Promise<{ instance_type: string; price_per_hour: number }[]> {
    const until = this.#ports.clock.now() + CALL_LIMIT_MS;
    const found: { instance_type: string; price_per_hour: number }[] = [];
    for (const instance_type of instance_types) {
      const wanted = { instance_type, gpus: 1, price_per_hour: null, disk_gb: DEFAULT_DISK_GB };
      const offer = await this.#market.cheapest(wanted, until).catch(() => null);
      if (offer) found.push({ instance_type, price_per_hour: offer.dph_total });
    }
    return found;
  }

  #ask(
    method: 'GET' | 'PUT' | 'DELETE',
    path: string,
    kind: 'create' | 'destroy' | 'list',
    until: number,
    body?: unknown,
  ): Promise<Answer> {
    return this.#api.ask({ method, path, body, until, pace: this.#paces[kind] });
  }
}

function faultOf({ gpus, env }: LaunchRequest): string | null {
  if (gpus < 1) return 'on Vast a worker needs at least one GPU: set gpus of its machine to 1 or more';
  const characters = Object.entries(env).reduce((sum, [name, value]) => sum + name.length + value.length, 0);
  if (characters <= MAX_ENV_CHARACTERS) return null;
  return `the worker's environment has ${characters} characters; Vast takes at most ${MAX_ENV_CHARACTERS}: shorten env and secrets of its pool`;
}

function diskOf({ disk_gb }: LaunchRequest): number {
  return Math.max(MIN_DISK_GB, disk_gb ?? DEFAULT_DISK_GB);
}

/** A bid is this much above the least one, or the next one to bid that takes the machine. */
const BID_ABOVE_LEAST = 1.1;

/** Returns what is bid for a machine, US dollars an hour: somewhat more than the least bid, within the highest price. */
function bidFor({ min_bid, dph_total }: Offer, { price_per_hour }: LaunchRequest): number {
  const bid = BID_ABOVE_LEAST * (min_bid ?? dph_total);
  return Math.round(1e4 * Math.min(bid, price_per_hour ?? bid)) / 1e4;
}

/** @param bid what is bid for an interruptible instance, US dollars an hour; null: it is an on-demand one */
function bodyOf(request: LaunchRequest, bid: number | null): object {
  return {
    ...(bid === null ? {} : { price: bid }),
    client_id: 'me',
    image: imageOf(request),
    label: request.name,
    disk: diskOf(request),
    // This type keeps the image's entry point, which the modes ssh and jupyter replace.
    runtype: 'args',
    env: request.env,
    // Without this, the request would wait for its machine in Vast's own queue.
    cancel_unavail: true,
  };
}

function launched(id: number, price: number | null): LaunchOutcome {
  return { kind: 'launched', external_id: String(id), price_per_hour: price };
}
