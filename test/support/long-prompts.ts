/** Requests whose prompt is long enough for an engine that only prefills. */

const WORDS = 'river harbour queue engine worker story quiet bright'.split(' ');

/** 6 KiB or so, another for each number. */
function longText(at: number): string {
  return Array.from({ length: 900 }, (_, word) => WORDS[(word * (at + 3) + (word >> 3)) % WORDS.length]).join(
    ' ',
  );
}

/** A chat, greedy. */
export function longChat(at: number, more: object = {}) {
  const messages = [{ role: 'user', content: `Number ${at}. ${longText(at)}` }];
  return { messages, max_tokens: 24, temperature: 0, ignore_eos: true, ...more };
}

/** The same as a text completion. */
export function longCompletion(at: number, more: object = {}) {
  return {
    prompt: `Number ${at}. ${longText(at)}`,
    max_tokens: 24,
    temperature: 0,
    ignore_eos: true,
    ...more,
  };
}

export interface Said {
  status: number;
  text: string;
  promptTokens: number | undefined;
}

type Choice = { text?: string; message?: { content: string }; delta?: { content?: string } };

/** What a road or an engine answers, a stream put together. */
export async function said(at: string, body: object, signal?: AbortSignal): Promise<Said> {
  const path = 'prompt' in body ? '/v1/completions' : '/v1/chat/completions';
  const answer = await fetch(at + path, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'tiny', ...body }),
    ...(signal && { signal }),
  });
  const whole = await answer.text();
  const isStream = answer.headers.get('content-type')?.startsWith('text/event-stream');
  const parts: { choices?: Choice[]; usage?: { prompt_tokens: number }; error?: unknown }[] = isStream
    ? [...whole.matchAll(/^data: (\{.*)$/gm)].map(([, data]) => JSON.parse(data!))
    : [JSON.parse(whole)];
  const text = parts.map(({ choices, error }) => {
    if (error) return JSON.stringify(error);
    const [choice] = choices ?? [];
    return choice?.text ?? choice?.message?.content ?? choice?.delta?.content ?? '';
  });
  const promptTokens = parts.findLast(({ usage }) => usage)?.usage?.prompt_tokens;
  return { status: answer.status, text: text.join(''), promptTokens };
}

/** Tokens of prompts that an engine has from another one, by its metrics. */
export async function tokensFromElsewhere(engineUrl: string): Promise<number> {
  const page = await (await fetch(`${engineUrl}/metrics`)).text();
  return Number(/^vllm:external_prefix_cache_hits_total\{[^}]*\} (\S+)$/m.exec(page)?.[1] ?? 0);
}
