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
    <section class="month" aria-labelledby="usage-month">
      <h2 id="usage-month">A month as a file</h2>
      <p class="notice">
        Each day, tenant, token, pool, model and mode of the month has a line, and so has what was idle.
      </p>
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
    </section>
  );
}
