import type { Problem } from '../../../fleet/view/scaling-attention.ts';
import type { News } from '../object/alerts.ts';

/** A problem as receivers are told of it; `code` is `test` in a test post. */
export type ToldProblem = Omit<Problem, 'code' | 'since'> & { code: string };
export type ToldNews = Omit<News, 'problem'> & { problem: ToldProblem };

/** The context in which a form words its news. */
export interface Told {
  queueId: string;
  /** The queue's id in front of each text, with a colon; empty for the default queue. */
  prefix: string;
  /** The time, epoch ms. */
  now: number;
}

/** A mail in plain text. */
export interface Mail {
  from: string;
  to: string[];
  subject: string;
  text: string;
}

/** A post or a mail, with the news in it. */
export type Outgoing<N extends ToldNews = ToldNews> = { about: readonly N[] } & (
  | { url: string; body: string; headers?: Record<string, string> }
  | { server: string; mail: Mail }
);

/** Returns the id by which a receiver joins all that it is told of one problem. */
export function idAtReceiver({ queueId }: Told, { id }: ToldProblem): string {
  return `worker-vllm/${queueId}/${id}`;
}

/** Returns the SHA-256 of a text in hexadecimal. */
export async function sha256(text: string): Promise<string> {
  const hash = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(text));
  return [...new Uint8Array(hash)].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}
