/** Writes a time in one unit, rounded down: `40 s`, `3 min`, `5 h`, `2 d`. */
export function span(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 48 * 3600) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86_400)} d`;
}

/** Writes `1 job`, `14 jobs`. */
export function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}

/** Writes `1 job waits`, `14 jobs wait`. */
export function jobsWait(count: number): string {
  return count === 1 ? '1 job waits' : `${count} jobs wait`;
}

/** Writes a share from 0 to 1 as `62 %`. */
export function percent(share: number): string {
  return `${Math.round(share * 100)} %`;
}

/** Writes a number a minute as `3.1/s`, `120/s`. */
export function perSecond(aMinute: number): string {
  const rate = aMinute / 60;
  return `${rate < 10 ? rate.toFixed(1) : Math.round(rate)}/s`;
}

/** Returns the first line of an error, shortened for a sentence. */
export function firstLine(text: string, most = 200): string {
  const line = text.trim().split('\n', 1)[0]!.trim();
  return line.length > most ? `${line.slice(0, most - 1)}…` : line;
}
