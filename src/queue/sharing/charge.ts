import type { Placed } from './backlog.ts';
import type { FairLine } from './fair-line.ts';
import { costOf, type Share } from './share.ts';

/** What a tenant is charged for one attempt: at its dispatch what it is expected to use, then what it does. */
export class Charge<J> {
  readonly place: Pick<Placed, 'config_id' | 'tenant'>;
  readonly #line: FairLine<J>;
  readonly #share: Share<J>;
  readonly #weight: number;
  #input: number;
  /** The output that is charged for: it was expected, or has come. */
  #output: number;
  /** Of that, what has come. */
  #seen = 0;

  /**
   * @param weight of the job's token, 1 for most
   * @param input tokens of its prompt as far as is known; null: as that of the tenant's other jobs
   */
  constructor(
    line: FairLine<J>,
    { config_id, tenant, weight }: Placed & { weight: number },
    input: number | null,
  ) {
    this.place = { config_id, tenant };
    this.#line = line;
    this.#share = line.share(tenant);
    this.#weight = weight;
    this.#input = input ?? this.#share.expectedInput;
    this.#output = this.#share.expectedOutput;
    line.serve(this.#share);
    this.#charge(costOf(this.#input, this.#output));
  }

  /** Tokens that have been generated, as far as the worker reported. */
  get seen(): number {
    return this.#seen;
  }

  /** This many tokens have been generated. @returns how many of them are new */
  generated(tokens: number): number {
    const fresh = Math.max(0, tokens - this.#seen);
    this.#seen += fresh;
    const beyond = Math.max(0, this.#seen - this.#output);
    this.#output += beyond;
    this.#charge(costOf(0, beyond));
    return fresh;
  }

  /** What the attempt used in the end. @returns how many of its tokens were not told before */
  settle(input: number, output: number): number {
    this.#charge(costOf(input - this.#input, output - this.#output));
    this.#share.used(input, output);
    const fresh = input + output - this.#seen;
    [this.#input, this.#output, this.#seen] = [input, output, output];
    return fresh;
  }

  /** The attempt failed through no fault of its tenant: only the tokens that have come are charged. */
  takeBack(): void {
    this.#charge(costOf(-this.#input, this.#seen - this.#output));
    [this.#input, this.#output] = [0, this.#seen];
  }

  #charge(tokens: number): void {
    this.#line.charge(this.#share, tokens / this.#weight);
  }
}
