import type { Limits } from '../../src/protocol/index.ts';
import type { Random } from '../support/random.ts';

/** Tokens of the longest prompt and the longest answer. */
export const LONGEST = { input: 60, output: 100 };

/** A budget that nobody reaches, so that what is counted of it can be looked at. */
const UNREACHED = { tokens_per_month: 1e9, dollars_per_month: 1e9 };

/** How a tenant brings its work. */
const WAYS = ['steady', 'floods', 'comes_and_goes', 'now_and_then'] as const;

/** One tenant with one token, drawn from the seed. */
export interface Tenant {
  name: string;
  weight: number;
  limits: Limits | null;
  way: (typeof WAYS)[number];
  /** Share of its work that is stored. */
  stored: number;
  /** Share of its callers that hang up. */
  leaves: number;
  /** It says too little of what its answers may be: its requests reserve a tenth of what they may use. */
  understates: boolean;
}

export function drawTenants(random: Random): Tenant[] {
  return Array.from({ length: random.int(2, 5) }, (_, index) => ({
    name: `team-${'abcde'[index]}`,
    weight: random.pick([0.5, 1, 1, 2]),
    limits: random.chance(0.4) ? drawLimits(random) : null,
    way: random.pick(WAYS),
    stored: random.pick([0, 0, 0.5, 1]),
    leaves: random.pick([0, 0, 0.1]),
    understates: random.chance(0.3),
  }));
}

function drawLimits(random: Random): Limits {
  return {
    ...UNREACHED,
    tenant: UNREACHED,
    ...(random.chance(0.5) && { running: random.int(1, 3) }),
    ...(random.chance(0.5) && { requests_per_minute: random.int(8, 40) }),
    ...(random.chance(0.7) && { tokens_per_minute: random.int(400, 3000) }),
  };
}

/** How many jobs it brings in this second. */
export function arrivals({ way }: Tenant, second: number, pending: number, random: Random): number {
  switch (way) {
    case 'steady':
      return Math.max(0, 6 - pending);
    case 'floods':
      return second % 60 === 10 && pending < 40 ? 40 : 0;
    case 'comes_and_goes':
      return second % 50 < 20 ? Math.max(0, 5 - pending) : 0;
    case 'now_and_then':
      return random.chance(0.2) ? 1 : 0;
  }
}
