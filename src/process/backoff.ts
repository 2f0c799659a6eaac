/** Returns a pause that doubles with each failure in a row, ms. @param failures 0 or 1 gives the first pause */
export function doubling(firstMs: number, longestMs: number, failures: number): number {
  // Without this bound the pause would exceed what a number can hold.
  return Math.min(longestMs, firstMs * 2 ** Math.min(30, Math.max(0, failures - 1)));
}
