/** How much is measured. */
export interface Effort {
  /** The number of turns of direct and road. */
  rounds: number;
  /**
   * The share of the requests, tokens and jobs of a whole run. Below 1 a run shows that everything works, and no more.
   */
  share: number;
}

/** @returns as many of `whole` as are measured, at least one */
export function scaled(whole: number, { share }: Effort): number {
  return Math.max(1, Math.round(whole * share));
}
