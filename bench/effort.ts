/** How much is measured. */
export interface Effort {
  /** Of direct and road in turns. */
  rounds: number;
  /** Of the requests, tokens and jobs that a whole run has. Below 1 a run shows that everything works, and no more. */
  share: number;
}

/** @returns as many of `whole` as are measured, at least one */
export function scaled(whole: number, { share }: Effort): number {
  return Math.max(1, Math.round(whole * share));
}
