const DIGITS = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
/** 62^24 is more than 2^142: nobody guesses one. */
const LENGTH = 24;

/** An id as OpenAI's are: a prefix that says what it is of, and random letters and digits. */
export function randomId(prefix: string): string {
  let id = prefix;
  // Bytes beyond the last whole multiple of 62 would make some digits likelier.
  while (id.length < prefix.length + LENGTH) {
    const [byte = 255] = crypto.getRandomValues(new Uint8Array(1));
    if (byte < 248) id += DIGITS[byte % 62];
  }
  return id;
}
