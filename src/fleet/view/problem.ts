import type { Attention } from '../../protocol/index.ts';

/** One that needs attention, before it is known who has acknowledged it. */
export type Problem = Omit<Attention, 'acknowledged'>;

/** A problem without its id. `about`: what it is about, where that is neither its worker nor its pool. */
export type Finding = Omit<Problem, 'id'> & { about?: string };

/** The same with its id: the same problem has the same one, however long it lasts. */
export function withId({ about, ...finding }: Finding): Problem {
  const { code, worker_id, config_id } = finding;
  return { id: `${code}/${about ?? worker_id ?? config_id ?? ''}`, ...finding };
}
