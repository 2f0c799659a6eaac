/**
 * Returns the known name that an unknown one was probably meant for, or null if none is near. A third of its letters
 * may be off, three at most.
 * @param atMost how many may be off in any case
 */
export function closestName(name: string, known: Iterable<string>, atMost = 3): string | null {
  const most = Math.min(atMost, Math.ceil(name.length / 3));
  let closest: { name: string; off: number } | null = null;
  for (const candidate of known) {
    if (Math.abs(candidate.length - name.length) > most) continue;
    const off = editDistance(name.toLowerCase(), candidate.toLowerCase());
    if (off <= most && (closest === null || off < closest.off)) closest = { name: candidate, off };
  }
  return closest?.name ?? null;
}

/** Counts the letters to add, drop or change (Levenshtein). */
export function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, at) => at);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const change = row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(change, row[j]! + 1, next[j - 1]! + 1));
    }
    row = next;
  }
  return row[b.length]!;
}
