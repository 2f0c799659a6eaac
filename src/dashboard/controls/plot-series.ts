import uPlot from 'uplot';
import type { Drawing, Series, Tone } from './series.ts';

const WIDTHS: Record<Drawing, number> = { line: 2, thin: 1, dotted: 1.5, area: 1.5, bar: 0 };
/** The dashes of a dotted line, px; the legend has the same (charts.css). */
const DOTS = [2, 3];

/** The widest bar, px. */
const WIDEST_BAR = 14;

/**
 * Returns how uPlot draws a line. @param fill the colour of the area below it
 * @param isStacked whether the area is one of several on top of each other
 */
export function seriesOptions(draw: Drawing, stroke: string, fill: string, isStacked: boolean): uPlot.Series {
  if (draw === 'bar') {
    return {
      fill: stroke,
      paths: uPlot.paths.bars!({ size: [0.8, WIDEST_BAR], align: 0 }),
      points: { show: false },
    };
  }
  return {
    stroke,
    width: isStacked ? 1 : WIDTHS[draw],
    ...(draw === 'area' && { fill }),
    ...(isStacked && { paths: uPlot.paths.stepped!({ align: 1 }) }),
    ...(draw === 'dotted' && { dash: DOTS }),
    spanGaps: false,
    // A value between two gaps has no line, and is drawn as a point.
    points: { show: !isStacked, size: 3, filter: isolated },
  };
}

/** Returns the steps at which a line's value has no neighbour. */
function isolated(chart: uPlot, line: number): number[] {
  const values = chart.data[line] ?? [];
  return [...values.keys()].filter(
    (i) => values[i] != null && values[i - 1] == null && values[i + 1] == null,
  );
}

/** Returns for each line the sum of it and the lines below it; null where none of them is known. */
export function sums(series: readonly Series[]): (number | null)[][] {
  return series.map((_, top) =>
    series[0]!.values.map((_, i) => {
      const parts = series.slice(0, top + 1).map(({ values }) => values[i] ?? null);
      return parts.every((part) => part === null)
        ? null
        : parts.reduce<number>((sum, part) => sum + (part ?? 0), 0);
    }),
  );
}

/** Returns a colour for an area. @param isCovering whether what is drawn behind it must not shine through */
export function softly(root: HTMLElement, tone: Tone, isCovering: boolean): string {
  const other = isCovering ? '45%, var(--page)' : '16%, transparent';
  return resolved(root, `color-mix(in srgb, var(--${tone}) ${other})`);
}

/** Returns the present value of a colour, since a canvas knows neither `var()` nor `light-dark()`. */
export function resolved(root: HTMLElement, color: string): string {
  const probe = document.createElement('span');
  probe.style.color = color;
  root.append(probe);
  const plain = getComputedStyle(probe).color;
  probe.remove();
  return plain;
}
