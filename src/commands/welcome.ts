import { REAL_ENGINE_HINT } from './choose-engine.ts';

interface Welcome {
  /** The queue's URL, without a trailing slash. */
  url: string;
  model: string;
  asksForTokens: boolean;
  isSimulated: boolean;
}

/** Returns requests that start the workers of a fleet: one, and many side by side. */
export function requestsForFleet({ url, model, asksForTokens }: Omit<Welcome, 'isSimulated'>): string {
  const chat = (content: string) => {
    const body = JSON.stringify({ model, messages: [{ role: 'user', content }] });
    return `${url}/v1/chat/completions -H 'content-type: application/json'${authorizationOf(asksForTokens)} -d ${quoted(body)}`;
  };
  return `
Workers start when requests come. The first request waits for the first of them:
${asksForTokens ? TOKEN_HINT : ''}
  curl ${chat('Say hello.')}

More of them start while many wait, and end when none come any more:

  seq 200 | xargs -P 20 -I {} curl -so /dev/null ${chat('Tell me a story.')}

What it does and why is said here, on the dashboard, and by "npx worker-vllm fleet status --watch".
Ctrl-C ends everything in order.
`;
}

/** Returns the address, and a first request by curl and by the OpenAI SDK that work when pasted. */
export function firstRequest({ url, model, asksForTokens, isSimulated }: Welcome): string {
  const body = JSON.stringify({ model, messages: [{ role: 'user', content: 'Say hello.' }] });
  const key = asksForTokens ? 'process.env.TOKEN' : "'none'";
  return `
Ready: ${url}/v1 serves ${model}
${asksForTokens ? TOKEN_HINT : ''}
  curl ${url}/v1/chat/completions -H 'content-type: application/json'${authorizationOf(asksForTokens)} -d ${quoted(body)}

  import OpenAI from 'openai';
  const client = new OpenAI({ baseURL: '${url}/v1', apiKey: ${key} });
  const stream = await client.chat.completions.create({
    model: ${JSON.stringify(model)},
    messages: [{ role: 'user', content: 'Say hello.' }],
    stream: true,
  });
  for await (const chunk of stream) process.stdout.write(chunk.choices[0]?.delta?.content ?? '');
${isSimulated ? REAL_ENGINE_HINT : ''}
Ctrl-C ends everything in order.
`;
}

const TOKEN_HINT = '\n  TOKEN is one made with: npx worker-vllm token create --scope submit\n';

function authorizationOf(asksForTokens: boolean): string {
  return asksForTokens ? ` -H "authorization: Bearer $TOKEN"` : '';
}

/** Quotes a text for a shell. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
