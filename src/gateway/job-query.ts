import * as z from 'zod';
import { isJobState, JOB_STATES, parseValue } from '../protocol/index.ts';
import type { JobListWanted, JobPage } from '../queue/rpc.ts';
import type { RouteRow } from './openapi/row.ts';
import { invalidCursor, invalidParameter, timeOf } from './parameters.ts';

/** The parameters by which a request's query selects stored jobs. */
export const FILTER_PARAMETERS = {
  state: { description: 'Only those in this state.', enum: JOB_STATES },
  config_id: { description: 'Only those of this pool.' },
  job_type: { description: 'Only those of this type.' },
  tenant: { description: 'Only those of this tenant.' },
  worker_id: { description: 'Only those that this worker had last.' },
  error_code: { description: 'Only those that ended with this error.' },
  id_prefix: { description: 'Only those whose ids begin so, in the order of their ids.' },
  since: { description: 'Submitted then or later: ISO time, or epoch seconds.' },
  until: { description: 'Submitted before: ISO time, or epoch seconds.' },
} satisfies RouteRow['query'];

/** @throws HttpError 400 */
export function wantedOf(
  query: Record<string, string>,
  viewer: string | null,
): Omit<JobListWanted, 'before' | 'limit'> {
  const given = (name: keyof typeof FILTER_PARAMETERS) => query[name] ?? null;
  return {
    filter: {
      state: stateOf(query.state),
      config_id: given('config_id'),
      job_type: given('job_type'),
      tenant: given('tenant'),
      worker_id: given('worker_id'),
      error_code: given('error_code'),
    },
    id_prefix: query.id_prefix || null,
    since: timeOf('since', query.since),
    until: timeOf('until', query.until),
    viewer,
  };
}

function stateOf(text: string | undefined): string | null {
  if (text === undefined || isJobState(text)) return text ?? null;
  throw invalidParameter('state: expected pending, leased, succeeded, failed, cancelled or expired');
}

const Place = z.tuple([z.number().int().nonnegative(), z.number().int().nonnegative()]);
const PlaceById = z.tuple([z.string().regex(/^[\w.:-]{1,128}$/)]);

export function cursorOf(place: NonNullable<JobPage['next']>): string {
  const parts = 'id' in place ? [place.id] : [place.created_at, place.seq];
  return btoa(JSON.stringify(parts)).replaceAll('=', '');
}

export function placeOf(cursor: string | undefined): JobPage['next'] {
  if (cursor === undefined) return null;
  try {
    const parts = JSON.parse(atob(cursor));
    const place = parseValue(Place, parts);
    if (place.ok) return { created_at: place.value[0], seq: place.value[1] };
    const byId = parseValue(PlaceById, parts);
    if (byId.ok) return { id: byId.value[0] };
  } catch {
    // A cursor that cannot be decoded is rejected below.
  }
  throw invalidCursor();
}
