/**
 * The faults of an engine on demand. `--fault name=value` sets them at the start, and `POST /simulator/faults
 * {"name": value}` while it runs; `GET` returns them, `DELETE` clears them.
 */
export interface Faults {
  /** The engine process dies after this many more tokens of all streams; the server exits 0, as vLLM's does. */
  die_after_tokens: number | null;
  /** Streams go silent and new requests wait, while `/health` stays 200. Setting this to false ends the hang. */
  hang: boolean;
  /** Every generation request is answered 503 "engine is currently busy". */
  refuse: boolean;
  /** The next N generation requests are answered 500. */
  error_500: number;
  /** `/health` answers 503. */
  unhealthy: boolean;
  /** Each stream's socket is destroyed after this many of its tokens. */
  cut_stream_after: number | null;
  /** The start fails while the model loads: true, or the message of the root cause. */
  start_failure: boolean | string;
}

export function noFaults(): Faults {
  return {
    die_after_tokens: null,
    hang: false,
    refuse: false,
    error_500: 0,
    unhealthy: false,
    cut_stream_after: null,
    start_failure: false,
  };
}

/**
 * Sets faults by name.
 * @throws Error that names the fault and what it expects; then nothing is changed
 */
export function setFaults(faults: Faults, values: Record<string, unknown>): void {
  const checked: Partial<Record<keyof Faults, unknown>> = {};
  for (const [name, value] of Object.entries(values)) {
    if (!isFault(name)) {
      throw new Error(`unknown fault '${name}': there are ${Object.keys(noFaults()).join(', ')}`);
    }
    const expected = expectation(name, value);
    if (expected) throw new Error(`fault ${name}: expected ${expected}, got ${JSON.stringify(value)}`);
    checked[name] = value;
  }
  Object.assign(faults, checked);
}

/**
 * Reads `name=value` of the command line; the name alone means true.
 * @throws Error as setFaults does
 */
export function setFaultFromText(faults: Faults, text: string): void {
  const at = text.indexOf('=');
  const name = at < 0 ? text : text.slice(0, at);
  setFaults(faults, { [name]: at < 0 ? true : parseValue(text.slice(at + 1)) });
}

function parseValue(text: string): unknown {
  if (text === 'true' || text === 'false') return text === 'true';
  if (/^\d+$/.test(text)) return Number(text);
  return text;
}

function isFault(name: string): name is keyof Faults {
  return Object.hasOwn(noFaults(), name);
}

/** Returns what the fault expects, if the value is something else; else null. */
function expectation(name: keyof Faults, value: unknown): string | null {
  const isCount = Number.isInteger(value) && (value as number) >= 0;
  switch (name) {
    case 'die_after_tokens':
    case 'cut_stream_after':
      return isCount || value === null ? null : 'a number of tokens, or null';
    case 'error_500':
      return isCount ? null : 'a number of requests';
    case 'start_failure':
      return typeof value === 'boolean' || typeof value === 'string' ? null : 'true, false or a message';
    case 'hang':
    case 'refuse':
    case 'unhealthy':
      return typeof value === 'boolean' ? null : 'true or false';
  }
}
