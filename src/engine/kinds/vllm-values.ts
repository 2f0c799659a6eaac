const UNITS: Record<string, number> = { k: 1e3, m: 1e6, g: 1e9, K: 1024, M: 1024 ** 2, G: 1024 ** 3 };

/**
 * Reads a number of tokens as vLLM's MAX_MODEL_LEN takes it: `4096`, `32k` for 32,000, `32K` for 32,768.
 * @throws Error that says what is expected
 */
export function readTokens(value: string): number {
  const [, digits, unit] = /^(\d+(?:\.\d+)?)([kKmMgG]?)$/.exec(value) ?? [];
  const tokens = Math.floor(Number(digits) * (unit ? UNITS[unit]! : 1));
  if (!(tokens > 0)) throw new Error('expected a number of tokens such as 4096 or 32K');
  return tokens;
}
