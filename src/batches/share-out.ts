/** The lines of one batch for one model, which compete for the next places of their pool in the queue. */
export interface Contender {
  /** The batch's tenant; null where no tokens are configured. */
  tenant: string | null;
  waiting: number;
  submitted: number;
  /** The epoch ms by which the first of the remaining lines must begin for all of them to be done within the window. */
  latest_start: number;
}

/**
 * Gives out places, each to the tenant that has the fewest lines in the queue, and among its batches to the one that
 * must begin first.
 * @returns the number of places of each contender; those that get none are left out
 */
export function shareOut<C extends Contender>(contenders: readonly C[], places: number): Map<C, number> {
  const shares = new Map<C, number>();
  const tenants = [...Map.groupBy(contenders, ({ tenant }) => tenant).values()].map((own) => ({
    submitted: own.reduce((sum, { submitted }) => sum + submitted, 0),
    line: own
      .filter(({ waiting }) => waiting > 0)
      .sort((one, other) => one.latest_start - other.latest_start),
  }));
  for (let place = 0; place < places; place++) {
    const [first, ...others] = tenants.filter(({ line }) => line.length > 0);
    if (first === undefined) break;
    const next = others.reduce((one, other) => (goesBefore(other, one) ? other : one), first);
    const contender = next.line[0]!;
    const share = (shares.get(contender) ?? 0) + 1;
    shares.set(contender, share);
    next.submitted += 1;
    if (share === contender.waiting) next.line.shift();
  }
  return shares;
}

interface Tenant {
  submitted: number;
  /** The tenant's contenders that have lines left, never empty in `goesBefore`. */
  line: readonly Contender[];
}

function goesBefore(one: Tenant, other: Tenant): boolean {
  if (one.submitted !== other.submitted) return one.submitted < other.submitted;
  return one.line[0]!.latest_start < other.line[0]!.latest_start;
}
