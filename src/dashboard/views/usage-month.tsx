import { useState } from 'preact/hooks';
import { now } from '../clock.ts';
import { at } from '../router.ts';
import { lastMonths } from '../usage.ts';

/** Shows links to a month as a file: every day, tenant, token, pool, model and mode. */
export function UsageMonth() {
  const months = lastMonths(now.value);
  const [month, setMonth] = useState(months[0]!);
  const path = (format: string) => at(`api/usage/export?month=${month}&format=${format}`);
  return (
    <div class="tools">
      <label>
        Month (UTC){' '}
        <select value={month} onChange={(event) => setMonth(event.currentTarget.value)}>
          {months.map((one) => (
            <option key={one}>{one}</option>
          ))}
        </select>
      </label>
      <a class="button" href={path('csv')} download={`usage-${month}.csv`}>
        Download CSV
      </a>
      <a class="button" href={path('jsonl')} download={`usage-${month}.jsonl`}>
        Download JSON lines
      </a>
    </div>
  );
}
