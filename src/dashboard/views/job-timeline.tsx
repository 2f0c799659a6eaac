import * as format from '../../show/format.ts';
import { type Activity, ENDS, type Lane, type Timeline, ticksOf } from '../../show/timeline.ts';
import { WorkerLink } from '../controls/worker-link.tsx';

const ACTIVITIES: Record<Activity, string> = {
  wait: 'waited',
  prefill: 'to its first token',
  decode: 'the rest of the answer',
  run: 'ran',
};

/** The share of the axis behind which a time would have no room for its text, also on a phone. */
const LAST_TICK = 0.85;

/** Shows a job's attempts to scale, each in a lane. */
export function TimelineChart({ timeline }: { timeline: Timeline }) {
  const { from, to, lanes } = timeline;
  const length = to - from;
  const share = (ms: number) => `${((100 * ms) / length).toFixed(3)}%`;
  return (
    <figure class="timeline">
      <div class="axis" aria-hidden="true">
        {ticksOf(length)
          .filter((tick) => tick <= LAST_TICK * length)
          .map((tick) => (
            <span key={tick} style={{ left: share(tick) }}>
              {format.duration(tick)}
            </span>
          ))}
      </div>
      <ol>
        {lanes.map((lane, index) => (
          <li key={`${index} ${lane.worker_id}`}>
            <LaneName lane={lane} />
            <div class="track" aria-hidden="true">
              {lane.spans.map((span) => (
                <span
                  key={span.activity}
                  class={`span ${span.activity}`}
                  title={`${ACTIVITIES[span.activity]} ${format.duration(span.to - span.from)}`}
                  style={{ left: share(span.from - from), width: share(span.to - span.from) }}
                />
              ))}
            </div>
            <LaneWords lane={lane} />
          </li>
        ))}
      </ol>
      <figcaption class="legend">
        <Key activity="wait" text="waits" />
        <Key activity="prefill" text="until the first token" />
        <Key activity="decode" text="answer after it" />
        <Key activity="run" text="runs, nothing streamed" />
      </figcaption>
    </figure>
  );
}

function Key({ activity, text }: { activity: Activity; text: string }) {
  return (
    <span>
      <i class={`span ${activity}`} aria-hidden="true" /> {text}
    </span>
  );
}

function LaneName({ lane: { attempt, worker_id } }: { lane: Lane }) {
  if (worker_id === null)
    return <p class="lane-name dim">{attempt === 0 ? 'No worker' : `Attempt ${attempt}`}</p>;
  return (
    <p class="lane-name">
      Attempt {attempt} <WorkerLink id={worker_id} />
    </p>
  );
}

/** Shows a lane in words, with the reason of its end. */
function LaneWords({ lane: { spans, end } }: { lane: Lane }) {
  const lengths = spans
    .filter(({ from, to }) => to > from)
    .map(({ activity, from, to }) => `${ACTIVITIES[activity]} ${format.duration(to - from)}`);
  // The detail of a moved attempt continues the sentence: "Moved from w1 at token 131: …"
  const colon = end?.step === 'moved' ? ' ' : ': ';
  const ending =
    end &&
    `${ENDS[end.step] ?? end.step}${end.detail && end.step !== 'settled' ? `${colon}${end.detail}` : ''}`;
  const settled = end?.step === 'settled' && end.detail ? end.detail : null;
  return (
    <p class="lane-words">
      <span class="number">{lengths.join(', ')}</span>
      {ending && <span class={`ending ${end?.step}`}> · {settled ?? ending}</span>}
      {!end && <span class="ending"> · goes on</span>}
    </p>
  );
}
