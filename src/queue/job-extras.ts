import type { Cost } from '../admission/job.ts';
import type { Cause } from '../aliases/alias.ts';
import type { TraceContext } from '../protocol/index.ts';

/*
 * Extras hold what features keep of a job. The core carries them from the job's submission to its end and reads none;
 * the job's row has them as one JSON column, which is written when the job is inserted and never changed.
 */

/** The extras that the gateway gives along with a job; each is left out where there is nothing to say. */
export interface GivenExtras {
  /**
   * The weight of the job's token: the larger it is, the less its tenant is charged for the job (docs/sharing.md). Left
   * out: 1.
   */
  weight?: number;
  /**
   * Whether the job's token wanted its requests kept when it submitted the job (docs/kept-requests.md). Left out: it
   * said nothing.
   */
  keep?: boolean;
  /** The beginning of the job's prompt. */
  prefix?: Prefix;
  /** The trace that the job's submission belongs to. */
  trace?: TraceContext;
  /** The address that the settlement is posted to. */
  webhook?: string | undefined;
  /** The sentences that filters said of the request before it was submitted; its ledger begins with them. */
  notes?: readonly string[];
}

export interface JobExtras extends GivenExtras {
  /**
   * The most that the job may cost, by which its token's limits admit it; left out if the token had none at submission.
   */
  cost?: Cost;
  /** The alias that the job asked for; left out if it named the model itself. */
  alias?: JobAlias;
  /** The alias of whose requests the job is a copy; left out: it is none (projections/mirrors.ts). */
  mirrors?: string;
}

/** The alias that a job asked for. */
export interface JobAlias {
  name: string;
  /** Why the job is not at the alias's first choice; null: it is. */
  fell: Cause | null;
  /** The conversation of a stored job that goes wherever the alias leads when it is sent. Left out: the job stays. */
  moves?: { session?: string };
}

const GIVEN: Record<keyof GivenExtras, true> = {
  weight: true,
  keep: true,
  prefix: true,
  trace: true,
  webhook: true,
  notes: true,
};
const GIVEN_KEYS = Object.keys(GIVEN) as (keyof GivenExtras)[];

/**
 * Takes a job's extras out of what was submitted.
 * @param cost null if its token has no limits
 * @param alias null if it names the model itself
 */
export function extrasOf(given: GivenExtras, cost: Cost | null, alias: JobAlias | null): JobExtras {
  const extras: Record<string, unknown> = cost === null ? {} : { cost };
  if (alias !== null) extras.alias = alias;
  for (const key of GIVEN_KEYS) if (given[key] !== undefined) extras[key] = given[key];
  return extras;
}

/**
 * The beginning of a prompt, as hashes: each stands for all of the prompt until the end of its block, its model and its
 * tenant, so two prompts agree as far as their hashes do.
 */
export interface Prefix {
  /** The hash of the conversation, if the caller names one; otherwise 0. */
  session: number;
  /** The length of the prompt, as far as blocks reach. */
  bytes: number;
  /**
   * The hashes, 30 bits each, which JavaScript engines store unboxed; none for a prompt shorter than the first block.
   */
  hashes: readonly number[];
}

/**
 * The bytes of the first block, 128 tokens or so: an engine computes fewer tokens in less time than matching them
 * takes.
 */
const FIRST_BLOCK_BYTES = 512;

/**
 * The number of blocks: 44 end at 300 kB, 75,000 tokens or so. Prompts that agree up to there count as equally warm.
 */
const MOST_BLOCKS = 44;

/**
 * The ends of a prompt's blocks, bytes. The first blocks are short; each later one is an eighth of the bytes before it.
 */
export const BLOCK_ENDS: readonly number[] = blockEnds();

function blockEnds(): number[] {
  const ends: number[] = [];
  let end = 0;
  while (ends.length < MOST_BLOCKS) {
    end += Math.max(FIRST_BLOCK_BYTES, end >> 3);
    ends.push(end);
  }
  return ends;
}
