import { count, percent } from '../../show/format.ts';

interface FigureProps {
  name: string;
  /** A sentence about a name that does not explain itself. */
  title?: string;
  children: preact.ComponentChildren;
}

/** Shows one of a list of numbers, with its name. */
export function Figure({ name, title, children }: FigureProps) {
  return (
    <div title={title}>
      <dt>{name}</dt>
      <dd class="number">{children}</dd>
    </div>
  );
}

/** Shows how much of something is done; nothing if that is unknown. @param share from 0 to 1, or null */
export function Progress({ share, label }: { share: number | null; label: string }) {
  if (share === null) return null;
  return (
    <progress class="progress" max={1} value={share} aria-label={label} title={percent(share)}>
      {percent(share)}
    </progress>
  );
}

/** More slots than a person would count are drawn as a bar. */
const MOST_BOXES = 16;
const BOX = { width: 6, height: 12, step: 8 };

/** Shows places for jobs: those in use are filled. */
export function Slots({ running, slots }: { running: number | null; slots: number | null }) {
  const taken = Math.max(0, Math.min(running ?? 0, slots ?? 0));
  return (
    <span class="slots">
      {slots !== null &&
        slots > 0 &&
        (slots <= MOST_BOXES ? <Boxes taken={taken} slots={slots} /> : <Bar share={taken / slots} />)}
      <span class="number">
        {count(running)}/{count(slots)}
      </span>
    </span>
  );
}

function Boxes({ taken, slots }: { taken: number; slots: number }) {
  const boxes = (from: number, to: number) =>
    Array.from(
      { length: to - from },
      (_, i) => `M${(from + i) * BOX.step + 0.5} .5h${BOX.width - 1}v${BOX.height - 1}h${1 - BOX.width}z`,
    ).join('');
  return (
    <svg width={slots * BOX.step} height={BOX.height} aria-hidden="true">
      <path class="free" d={boxes(taken, slots)} />
      <path class="taken" d={boxes(0, taken)} />
    </svg>
  );
}

function Bar({ share }: { share: number }) {
  const width = MOST_BOXES * BOX.step - 2;
  return (
    <svg width={MOST_BOXES * BOX.step} height={BOX.height} aria-hidden="true">
      <path class="free" d={`M.5 .5h${width - 1}v${BOX.height - 1}h${1 - width}z`} />
      <path class="taken" d={share > 0 ? `M0 0h${(width * share).toFixed(1)}v${BOX.height}H0z` : ''} />
    </svg>
  );
}

interface SparklineProps {
  /** The values, oldest first; null: nothing is known of that time. */
  values: readonly (number | null)[];
  /** The line's meaning, for those who do not see it. */
  label: string;
}

/** Shows a number over time, without axes: a path is drawn faster than a chart, and a table has many. */
export function Sparkline({ values, label }: SparklineProps) {
  const known = values.filter((value) => value !== null);
  // Fewer values would be a mere speck at the edge.
  if (known.length < 6) return <span class="sparkline" />;
  const most = Math.max(...known, Number.EPSILON);
  const line = values
    .map((value, x) =>
      value === null ? '' : `${values[x - 1] == null ? 'M' : 'L'}${x} ${(1 - value / most).toFixed(3)}`,
    )
    .join('');
  return (
    <svg class="sparkline" viewBox={`0 -0.1 ${values.length - 1} 1.2`} preserveAspectRatio="none" role="img">
      <title>{label}</title>
      <path d={line} vector-effect="non-scaling-stroke" />
    </svg>
  );
}
