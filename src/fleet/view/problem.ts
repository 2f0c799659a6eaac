import { type Attention, withFullStop } from '../../protocol/index.ts';

/** A problem that needs attention, before it is known who has acknowledged it. */
export type Problem = Omit<Attention, 'acknowledged'>;

/** A problem without its id. `about`: its subject, where that is neither its worker nor its pool. */
export type Finding = Omit<Problem, 'id'> & { about?: string };

/** Gives a problem its id, which stays the same however long the problem lasts. */
export function withId({ about, ...finding }: Finding): Problem {
  const { code, worker_id, config_id } = finding;
  // Text and advice contain errors and reasons from elsewhere, some of which end with a full stop.
  const [text, advice] = [withFullStop(finding.text), withFullStop(finding.advice)];
  return { id: `${code}/${about ?? worker_id ?? config_id ?? ''}`, ...finding, text, advice };
}
