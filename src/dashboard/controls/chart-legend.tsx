import type { Signal } from '@preact/signals';
import type { Series } from './series.ts';

interface LegendProps {
  series: readonly Series[];
  format(value: number | null): string;
  /** The step whose values are shown; null: each line's newest. */
  pointed: Signal<number | null>;
}

/** Shows each line of a chart as it is drawn, its name, and its value at the cursor, else its newest one. */
export function Legend({ series, format, pointed }: LegendProps) {
  return (
    <dl class="legend">
      {series.map(({ name, values, ...look }) => {
        const value = pointed.value === null ? values.findLast((one) => one !== null) : values[pointed.value];
        return (
          <div key={name}>
            <dt>
              <Key {...look} /> {name}
            </dt>
            <dd class="number">{format(value ?? null)}</dd>
          </div>
        );
      })}
    </dl>
  );
}

const KEY = { width: 16, height: 10 };

/** Shows what a line looks like. */
function Key({ draw = 'line', tone = 'accent' }: Pick<Series, 'draw' | 'tone'>) {
  const [y, { width, height }] = [KEY.height / 2, KEY];
  return (
    <svg class={`key ${draw} ${tone}`} width={width} height={height} aria-hidden="true">
      {draw === 'area' && <path class="below" d={`M0 1h${width}v${height}H0z`} />}
      {draw === 'bar' ? (
        <path class="whole" d={`M3 0h${height}v${height}H3z`} />
      ) : (
        <path class="over" d={draw === 'area' ? `M0 1h${width}` : `M0 ${y}h${width}`} />
      )}
    </svg>
  );
}
