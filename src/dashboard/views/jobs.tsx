import type { ListedJob } from '../../protocol/job-answers.ts';
import type { FilterField } from '../jobs/filters.tsx';
import { JOB_COLUMNS } from '../jobs/job-columns.tsx';
import { List } from '../jobs/list.tsx';
import { MatchingActions } from '../jobs/matching-actions.tsx';
import type { Listed } from '../jobs/paged-list.ts';
import { fleet } from '../live.ts';
import { href } from '../router.ts';

const STATES = ['pending', 'leased', 'succeeded', 'failed', 'cancelled', 'expired'];
const WORDS: Record<string, string> = { pending: 'waiting', leased: 'running' };

const FIELDS: FilterField[] = [
  { name: 'id', parameter: 'id_prefix', label: 'Id begins with' },
  { name: 'state', parameter: 'state', label: 'State', options: STATES, words: WORDS },
  { name: 'config_id', parameter: 'config_id', label: 'Pool' },
  { name: 'worker_id', parameter: 'worker_id', label: 'Worker' },
];
const MORE: FilterField[] = [
  { name: 'error_code', parameter: 'error_code', label: 'Error code' },
  { name: 'tenant', parameter: 'tenant', label: 'Token or tenant' },
  { name: 'job_type', parameter: 'job_type', label: 'Type' },
];

const ROW_PX = 32;

const JOBS: Listed<ListedJob> = {
  path: 'api/jobs',
  rowsOf: ({ jobs }) => jobs as ListedJob[],
  idOf: ({ id }) => id,
  timeOf: ({ created_at }) => Date.parse(created_at),
};

/** Shows the stored jobs, newest first. */
export function JobsView() {
  const pools = (fleet.value?.pools ?? []).map(({ config_id }) => config_id);
  const fields = FIELDS.map((field) => (field.name === 'config_id' ? { ...field, options: pools } : field));
  return (
    <section class="view" aria-labelledby="jobs-title">
      <h1 id="jobs-title">Jobs</h1>
      <List
        listed={JOBS}
        label="Jobs, newest first"
        what="job"
        columns={JOB_COLUMNS}
        rowHeight={ROW_PX}
        pathOf={({ id }) => `jobs/${encodeURIComponent(id)}`}
        fields={fields}
        more={MORE}
        timeLabel="Submitted"
        notesOf={() => <MatchingActions fields={[...FIELDS, ...MORE]} />}
      >
        No job is stored. <a href={href('try')}>Try it</a>, or submit one with{' '}
        <code>npx worker-vllm submit "Hello"</code>. Requests to /v1/… are answered on their connection:{' '}
        <a href={href('requests')}>Requests</a> lists them.
      </List>
    </section>
  );
}
