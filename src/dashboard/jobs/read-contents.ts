import { request } from '../api.ts';

export interface Read {
  /** Indented where it is whole. */
  text: string;
  /** False: there is more than was asked for, and the text ends anywhere. */
  isWhole: boolean;
}

/**
 * A job's payload or result, as much of it as is wanted; the rest is not even received.
 * @param path of it, without a slash first
 * @throws Error with what to tell
 */
export async function readContents(path: string, mostBytes: number): Promise<Read> {
  const stop = new AbortController();
  const response = await request(path, { signal: stop.signal });
  const reader = response.body!.getReader();
  const decoder = new TextDecoder();
  let text = '';
  let length = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return { text: indented(text + decoder.decode()), isWhole: true };
    length += value.length;
    text += decoder.decode(value, { stream: true });
    if (length <= mostBytes) continue;
    stop.abort();
    return { text: text.slice(0, mostBytes), isWhole: false };
  }
}

function indented(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
