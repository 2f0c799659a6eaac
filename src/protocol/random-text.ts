const LETTERS_AND_DIGITS = 'abcdefghijklmnopqrstuvwxyz0123456789';

/** Makes part of a name at random, of lower-case letters and digits. */
export function randomName(length: number): string {
  return randomText(length, LETTERS_AND_DIGITS);
}

/** Makes a text of random characters, each as likely as the others. @param alphabet at most 256 characters */
export function randomText(length: number, alphabet: string): string {
  // Bytes beyond the last whole multiple of the alphabet would make some characters likelier.
  const fair = 256 - (256 % alphabet.length);
  const chosen: string[] = [];
  while (chosen.length < length) {
    for (const byte of crypto.getRandomValues(new Uint8Array(length))) {
      if (byte < fair && chosen.length < length) chosen.push(alphabet[byte % alphabet.length]!);
    }
  }
  return chosen.join('');
}
