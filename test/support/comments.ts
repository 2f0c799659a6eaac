/** Returns events without the comments that a caller gets where an answer takes long. */
export function withoutComments(events: string): string {
  return events.replaceAll(/^: .*\n\n/gm, '');
}
