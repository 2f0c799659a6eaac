/**
 * A list of items is stored as bytes: the difference of each item's number to the one before it. The items of a chain
 * get their numbers one after the other, so most differences are one byte, and the list of a chain of 50 turns has some
 * 100 bytes.
 */

/** Writes the numbers of items, in their order. */
export function packItems(numbers: readonly number[]): Uint8Array {
  const bytes: number[] = [];
  let before = 0;
  for (const number of numbers) {
    let rest = zigzag(number - before);
    before = number;
    while (rest >= 128) {
      bytes.push((rest % 128) + 128);
      rest = Math.floor(rest / 128);
    }
    bytes.push(rest);
  }
  return Uint8Array.from(bytes);
}

/** Reads what `packItems` wrote. */
export function unpackItems(packed: Uint8Array | ArrayBuffer): number[] {
  const numbers: number[] = [];
  let before = 0;
  let value = 0;
  let scale = 1;
  for (const byte of new Uint8Array(packed)) {
    value += (byte % 128) * scale;
    if (byte >= 128) {
      scale *= 128;
      continue;
    }
    before += value % 2 === 0 ? value / 2 : -(value + 1) / 2;
    numbers.push(before);
    value = 0;
    scale = 1;
  }
  return numbers;
}

/** Makes a number that is not negative of any whole one: 0, -1, 1, -2, … become 0, 1, 2, 3, … */
function zigzag(difference: number): number {
  return difference >= 0 ? difference * 2 : -difference * 2 - 1;
}
