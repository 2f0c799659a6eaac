/**
 * SHA-256 (FIPS 180-4) as a synchronous function: the one of `crypto.subtle` is asynchronous, and the scheduler's
 * commits are not.
 */

/** Returns the first 32 bits of the fractional parts of roots of the first 64 primes. */
function fractions(root: number): Uint32Array {
  const primes: number[] = [];
  for (let n = 2; primes.length < 64; n += 1) if (primes.every((prime) => n % prime !== 0)) primes.push(n);
  return Uint32Array.from(primes, (prime) => (prime ** (1 / root) % 1) * 2 ** 32);
}

const ROUND = fractions(3);
const BEGIN = fractions(2).subarray(0, 8);

const turned = (word: number, by: number) => (word >>> by) | (word << (32 - by));

/** Returns a text's SHA-256 in lower-case hex. */
export function sha256Hex(text: string): string {
  const bytes = new TextEncoder().encode(text);
  const padded = new Uint8Array(Math.ceil((bytes.length + 9) / 64) * 64);
  padded.set(bytes);
  padded[bytes.length] = 0x80;
  const view = new DataView(padded.buffer);
  view.setBigUint64(padded.length - 8, BigInt(bytes.length) * 8n);
  const hash = Uint32Array.from(BEGIN);
  for (let at = 0; at < padded.length; at += 64) mix(hash, view, at);
  return [...hash].map((word) => word.toString(16).padStart(8, '0')).join('');
}

/** Mixes one block of 64 bytes into the hash. */
function mix(hash: Uint32Array, view: DataView, at: number): void {
  const words = new Uint32Array(64);
  for (let i = 0; i < 64; i += 1) {
    if (i < 16) {
      words[i] = view.getUint32(at + 4 * i);
      continue;
    }
    const [near, far] = [words[i - 2]!, words[i - 15]!];
    const small0 = turned(far, 7) ^ turned(far, 18) ^ (far >>> 3);
    const small1 = turned(near, 17) ^ turned(near, 19) ^ (near >>> 10);
    words[i] = words[i - 16]! + small0 + words[i - 7]! + small1;
  }
  let [a, b, c, d, e, f, g, h] = hash as unknown as [
    number,
    number,
    number,
    number,
    number,
    number,
    number,
    number,
  ];
  for (let i = 0; i < 64; i += 1) {
    const big1 = turned(e, 6) ^ turned(e, 11) ^ turned(e, 25);
    const one = (h + big1 + ((e & f) ^ (~e & g)) + ROUND[i]! + words[i]!) | 0;
    const big0 = turned(a, 2) ^ turned(a, 13) ^ turned(a, 22);
    const two = (big0 + ((a & b) ^ (a & c) ^ (b & c))) | 0;
    [h, g, f, e, d, c, b, a] = [g, f, e, (d + one) | 0, c, b, a, (one + two) | 0];
  }
  for (const [index, word] of [a, b, c, d, e, f, g, h].entries()) hash[index] = hash[index]! + word;
}
