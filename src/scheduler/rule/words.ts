/** Returns a count with its noun: `1 worker`, `2 workers`. */
export function plural(count: number, thing: string): string {
  return `${count} ${thing}${count === 1 ? '' : 's'}`;
}

/** Returns a time such as `14:03 UTC`, with the day where that is not today. */
export function timeOfDay(at: number, now: number): string {
  const [day, time] = new Date(at).toISOString().split('T') as [string, string];
  const today = new Date(now).toISOString().split('T')[0];
  return `${day === today ? '' : `${day} `}${time.slice(0, 5)} UTC`;
}
