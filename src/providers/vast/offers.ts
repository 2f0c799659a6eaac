import * as z from 'zod';
import { fieldsOf } from '../../protocol/fields.ts';
import type { DriverPorts, LaunchRequest } from '../driver.ts';
import { type Answer, NoAnswerError, Pace, type RestApi } from '../rest.ts';

const Offer = z.object({
  id: z.number().int(),
  machine_id: z.number().int().nullish(),
  /** The price of the whole machine, its disk included, US dollars an hour. */
  dph_total: z.number(),
  /** The least bid that an interruptible instance starts with, US dollars an hour; null: it takes no bids. */
  min_bid: z.number().nullish(),
});
export type Offer = z.output<typeof Offer>;
const Offers = z.object({ offers: z.array(Offer) });

export type Wanted = Pick<LaunchRequest, 'instance_type' | 'gpus' | 'price_per_hour' | 'spot'> & {
  disk_gb: number;
};

/** The interval between searches, ms: Vast allows ten a minute. */
const SEARCH_EVERY_MS = 6000;
const OFFERS_PER_SEARCH = 20;
/** Launches within this many ms after a search share its offers. */
const FRESH_MS = 30_000;
/**
 * An offer that this driver has requested is skipped for this many ms: it is rented, or another customer has taken it.
 */
const CLAIMED_MS = 120_000;
/** A machine that did not start in time comes last for this many ms. */
const SLOW_MS = 6 * 3600_000;
const DAY_MS = 86_400_000;

/** The filters that a machine for models must pass; the spec's `search` adds to them and replaces them. */
const FILTERS = {
  verified: { eq: true },
  rentable: { eq: true },
  rented: { eq: false },
  external: { eq: false },
  reliability: { gte: 0.98 },
  cuda_max_good: { gte: 12.8 },
  // On a slow line, the start of a large model would take hours.
  inet_down: { gte: 500 },
  // An expired contract ends its machine.
  duration: { gte: DAY_MS / 1000 },
};

interface Search {
  askedAt: number;
  offers: Promise<Offer[]>;
}

/**
 * The market of offers that can be rented now, cheapest first. Vast allows few searches, and counts them by the day, so
 * launches share them.
 */
export class OfferMarket {
  readonly #ports: DriverPorts;
  readonly #api: RestApi;
  readonly #filters: Record<string, unknown>;
  readonly #pace: Pace;
  readonly #searches = new Map<string, Search>();
  /** The newest offers found for each search. */
  readonly #answers = new Map<string, Offer[]>();
  readonly #claimed = new Map<number, number>();
  readonly #slow = new Map<number, number>();
  /** The time until which Vast allows no search, epoch ms. */
  #noSearchUntil = 0;

  constructor(ports: DriverPorts, api: RestApi, filters: Record<string, unknown> = {}) {
    this.#ports = ports;
    this.#api = api;
    this.#filters = filters;
    this.#pace = new Pace(ports.clock, SEARCH_EVERY_MS);
  }

  /** Whether no search is possible until midnight UTC. */
  get isUsedUp(): boolean {
    return this.#ports.clock.now() < this.#noSearchUntil;
  }

  /**
   * Returns the cheapest offer that no other launch has requested, and reserves it for the caller; null: there is none.
   * @throws NoAnswerError
   */
  async claim(wanted: Wanted, until: number): Promise<Offer | null> {
    const known = this.#freshSearch(wanted);
    const offer = await this.#claimFrom(known ?? this.#search(wanted, until));
    if (offer || !known) return offer;
    const newer = this.#freshSearch(wanted);
    return await this.#claimFrom(newer && newer !== known ? newer : this.#search(wanted, until));
  }

  async #claimFrom({ offers }: Search): Promise<Offer | null> {
    const offer = this.#best(await offers);
    if (offer) this.#claimed.set(offer.id, this.#ports.clock.now() + CLAIMED_MS);
    return offer ?? null;
  }

  /**
   * Returns the cheapest of the newest offers, or searches if there are none yet for this instance type. @throws
   * NoAnswerError
   */
  async cheapest(wanted: Wanted, until: number): Promise<Offer | null> {
    const known = this.#answers.get(keyOf(wanted));
    return (known ?? (await (this.#freshSearch(wanted) ?? this.#search(wanted, until)).offers))[0] ?? null;
  }

  /** Puts a machine that did not start in time last. Offers change their ids, machines keep theirs. */
  avoid(machineId: number): void {
    this.#slow.set(machineId, this.#ports.clock.now() + SLOW_MS);
  }

  #best(offers: Offer[]): Offer | undefined {
    const now = this.#ports.clock.now();
    const isIn = (until: number | undefined) => until !== undefined && until > now;
    const free = offers.filter(({ id }) => !isIn(this.#claimed.get(id)));
    return free.find(({ machine_id }) => !isIn(this.#slow.get(machine_id ?? 0))) ?? free[0];
  }

  #freshSearch(wanted: Wanted): Search | undefined {
    const search = this.#searches.get(keyOf(wanted));
    return search && this.#ports.clock.now() - search.askedAt <= FRESH_MS ? search : undefined;
  }

  #search(wanted: Wanted, until: number): Search {
    const key = keyOf(wanted);
    const search = { askedAt: this.#ports.clock.now(), offers: this.#ask(wanted, until) };
    this.#searches.set(key, search);
    search.offers.catch(() => {
      if (this.#searches.get(key) === search) this.#searches.delete(key);
    });
    return search;
  }

  async #ask(wanted: Wanted, until: number): Promise<Offer[]> {
    const key = keyOf(wanted);
    if (this.isUsedUp) return this.#answers.get(key) ?? [];
    const body = { ...FILTERS, ...this.#filters, ...filtersOf(wanted) };
    const answer = await this.#api.ask({
      method: 'POST',
      path: '/v0/bundles/',
      body,
      until,
      pace: this.#pace,
      isUsedUp,
    });
    if (isUsedUp(answer)) {
      const now = this.#ports.clock.now();
      this.#noSearchUntil = Math.floor(now / DAY_MS + 1) * DAY_MS;
      this.#ports.log.warn(
        {},
        'Vast allows no more searches until midnight UTC; the offers found last are used',
      );
      return this.#answers.get(key) ?? [];
    }
    if (answer.status === 400 || answer.status === 422) {
      throw new BadSearchError(this.#api.said('the search for offers', answer));
    }
    const { offers } = this.#api.read('the search for offers', answer, Offers);
    this.#answers.set(key, offers);
    return offers;
  }
}

/** The error for a search that Vast refuses. */
export class BadSearchError extends NoAnswerError {}

function filtersOf({ instance_type, gpus, disk_gb, price_per_hour, spot }: Wanted): Record<string, unknown> {
  const price = spot ? 'min_bid' : 'dph_total';
  return {
    // The spec may have underscores in place of blanks, which `vastai search offers` accepts too.
    gpu_name: { in: [instance_type.replaceAll('_', ' ')] },
    num_gpus: { eq: gpus },
    disk_space: { gte: disk_gb },
    ...(price_per_hour === null ? {} : { [price]: { lte: price_per_hour } }),
    type: spot ? 'bid' : 'on-demand',
    order: [[price, 'asc']],
    limit: OFFERS_PER_SEARCH,
    // Only so does the price include the disk.
    allocated_storage: disk_gb,
  };
}

function keyOf(wanted: Wanted): string {
  const { instance_type, gpus, disk_gb, price_per_hour, spot = false } = wanted;
  return JSON.stringify([instance_type, gpus, disk_gb, price_per_hour, spot]);
}

/** Returns whether the day's searches are used up. */
function isUsedUp({ body }: Answer): boolean {
  return fieldsOf(body).error === 'search_quota_exceeded';
}
