import { request } from '../api.ts';

export interface Read {
  /** The text, indented where it is whole. */
  text: string;
  /** Whether the text is whole; otherwise it was cut at the wanted length. */
  isWhole: boolean;
}

/**
 * Reads a job's payload or result, up to a length; the rest is not even received.
 * @param path the path of the payload or result, without a slash first
 * @throws Error with a message for the person
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
