/**
 * Returns whether a name fits a pattern, in which `*` stands for any run of characters, also for none: `runpod-*`. Such
 * patterns say which ids of queues and workers are allowed.
 */
export function matchesPattern(pattern: string, name: string): boolean {
  const [first = '', ...rest] = pattern.split('*');
  if (rest.length === 0) return name === pattern;
  const last = rest.pop() as string;
  if (!name.startsWith(first)) return false;
  let at = first.length;
  for (const part of rest) {
    const found = name.indexOf(part, at);
    if (found < 0) return false;
    at = found + part.length;
  }
  return name.length - last.length >= at && name.endsWith(last);
}
