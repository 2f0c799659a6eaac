import { REAL_ENGINE_HINT } from './choose-engine.ts';

interface Welcome {
  /** Of the queue, without a trailing slash. */
  url: string;
  model: string;
  asksForTokens: boolean;
  isSimulated: boolean;
}

/** The address, and a first request by curl and by the OpenAI SDK that work when pasted. */
export function firstRequest({ url, model, asksForTokens, isSimulated }: Welcome): string {
  const body = JSON.stringify({ model, messages: [{ role: 'user', content: 'Say hello.' }] });
  const quoted = `'${body.replaceAll("'", `'\\''`)}'`;
  const authorization = asksForTokens ? ` -H "authorization: Bearer $TOKEN"` : '';
  const key = asksForTokens ? 'process.env.TOKEN' : "'none'";
  const tokenHint = asksForTokens ? '\n  TOKEN is one made with: npx worker-vllm token --scope submit\n' : '';
  return `
Ready: ${url}/v1 serves ${model}
${tokenHint}
  curl ${url}/v1/chat/completions -H 'content-type: application/json'${authorization} -d ${quoted}

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
