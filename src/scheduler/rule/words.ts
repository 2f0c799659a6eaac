/** `1 worker`, `2 workers`. */
export function plural(count: number, thing: string): string {
  return `${count} ${thing}${count === 1 ? '' : 's'}`;
}
