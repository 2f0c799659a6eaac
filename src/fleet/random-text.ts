const LETTERS_AND_DIGITS = 'abcdefghijklmnopqrstuvwxyz0123456789';

/** Lower-case letters and digits. */
export function randomText(length: number): string {
  // 252 is the greatest multiple of 36 that a byte holds: each is as likely as the others.
  const chosen: string[] = [];
  while (chosen.length < length) {
    for (const byte of crypto.getRandomValues(new Uint8Array(length))) {
      if (byte < 252 && chosen.length < length) chosen.push(LETTERS_AND_DIGITS[byte % 36]!);
    }
  }
  return chosen.join('');
}
