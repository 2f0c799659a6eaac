import type { Post } from '../../durable/host.ts';
import { fieldsOf, jsonOrText } from '../../protocol/index.ts';
import type { HookAddress } from '../../settings/hooks.ts';
import { signedHeaders } from '../../webhooks/signature.ts';
import type { HookCounts, Stage } from './counts.ts';

/** A hook could not be asked, or its answer is none that docs/hooks.md describes. The message is a clause. */
export class HookFailure extends Error {
  override name = 'HookFailure';
}

/** The decision of a hook. `answer`: the JSON in which it says what takes the place of the body or the text. */
export type Verdict =
  | { action: 'allow' }
  | { action: 'refuse'; message: string; code: string }
  | { action: 'replace'; answer: string };

export interface CallerPorts {
  post: Post;
  key: Uint8Array<ArrayBuffer>;
  deadlineMs: number;
  counts: HookCounts;
  now(): number;
}

/** The most characters of a hook's answer: those of the longest body of a request. */
const MOST_CHARACTERS = 64 * 1024 * 1024;

/** The code of a refusal that names none, and the most characters of one that does: those of a worker's codes. */
const REFUSED = 'refused_by_hook';
const MOST_CODE = 64;
const MOST_MESSAGE = 2000;

/** Asks hooks: posts JSON, signed as Standard Webhooks says, and reads the verdict. */
export class HookCaller {
  readonly #ports: CallerPorts;

  constructor(ports: CallerPorts) {
    this.#ports = ports;
  }

  /**
   * Asks a hook.
   * @param body JSON
   * @throws HookFailure
   */
  async ask(stage: Stage, { url, reach }: HookAddress, body: string): Promise<Verdict> {
    const { counts, now } = this.#ports;
    const startedAt = now();
    try {
      const verdict = verdictOf(await this.#post(url, reach, body));
      counts.asked(stage, now() - startedAt, verdict.action);
      return verdict;
    } catch (error) {
      counts.asked(stage, now() - startedAt, 'failure');
      throw error instanceof HookFailure ? error : new HookFailure(this.#reasonOf(error));
    }
  }

  async #post(url: string, reach: HookAddress['reach'], body: string): Promise<string> {
    const { post, key, deadlineMs, now } = this.#ports;
    const response = await post(reach)(url, {
      method: 'POST',
      redirect: 'manual',
      headers: {
        'content-type': 'application/json',
        'user-agent': 'worker-vllm',
        ...(await signedHeaders(key, `msg_${crypto.randomUUID()}`, now(), body)),
      },
      body,
      signal: AbortSignal.timeout(deadlineMs),
    });
    if (response.status !== 200) {
      await response.body?.cancel();
      throw new HookFailure(`it answered ${response.status}`);
    }
    return await textOf(response);
  }

  #reasonOf(error: unknown): string {
    const { name, message = String(error) } = Object(error) as Partial<Error>;
    return name === 'TimeoutError' ? `no answer within ${this.#ports.deadlineMs / 1000} s` : message;
  }
}

/** Returns the text of an answer. @throws HookFailure once it is longer than any may be: it could have no end */
async function textOf({ body }: Response): Promise<string> {
  const decoder = new TextDecoder();
  let text = '';
  for await (const piece of body ?? []) {
    text += decoder.decode(piece, { stream: true });
    if (text.length > MOST_CHARACTERS) throw new HookFailure('its answer is too long');
  }
  return text + decoder.decode();
}

/** @throws HookFailure for an answer that is none */
function verdictOf(text: string): Verdict {
  const { action, message, code } = fieldsOf(jsonOrText(text));
  if (action === 'allow') return { action };
  if (action === 'replace') return { action, answer: text };
  if (action !== 'refuse') throw new HookFailure('its answer has no "action" of allow, refuse and replace');
  if (typeof message !== 'string' || message === '') throw new HookFailure('it refused without a "message"');
  return {
    action,
    message: message.slice(0, MOST_MESSAGE),
    code: typeof code === 'string' && code !== '' ? code.slice(0, MOST_CODE) : REFUSED,
  };
}
