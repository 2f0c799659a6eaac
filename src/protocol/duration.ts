import * as z from 'zod';

const DURATION = /^(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)?$/;
const UNIT_SECONDS = { ms: 0.001, s: 1, m: 60, h: 3600, d: 86_400 } as const;

/** A duration: seconds as a number, or `90s`, `5m`, `2h`, `1d`. The value is in seconds. */
export const Duration = z
  .union([z.number().min(0), z.string().regex(DURATION, 'expected a duration such as 30s, 5m or 2h')])
  .transform((given) => (typeof given === 'number' ? given : secondsOf(given)));

function secondsOf(text: string): number {
  const [, number = '0', unit = 's'] = DURATION.exec(text) ?? [];
  return Number(number) * UNIT_SECONDS[unit as keyof typeof UNIT_SECONDS];
}
