interface SparklineProps {
  /** The values, oldest first; null where nothing is known of that time. */
  values: readonly (number | null)[];
  /** The line's meaning, for those who do not see it. */
  label: string;
}

/** Shows a number over time, without axes: a path is drawn faster than a chart, and a table has many. */
export function Sparkline({ values, label }: SparklineProps) {
  const known = values.filter((value) => value !== null);
  // Fewer values would be a speck.
  if (known.length < 3) return <span class="sparkline" />;
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
