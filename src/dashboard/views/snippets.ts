import type { ChatRequest } from './try-request.ts';

/** The address of requests, without a slash at its end: `http://127.0.0.1:8788/v1`, and whether it asks for a token. */
interface Target {
  baseUrl: string;
  asksForToken: boolean;
}

/** The programs that make a request, by language, ready to run. */
export const SNIPPETS: Record<string, { name: string; of(target: Target, body: ChatRequest): string }> = {
  curl: {
    name: 'curl',
    of: ({ baseUrl, asksForToken }, body) => curlCommand(`${baseUrl}/chat/completions`, asksForToken, body),
  },
  python: { name: 'Python', of: python },
  javascript: { name: 'JavaScript', of: javascript },
};

function python({ baseUrl, asksForToken }: Target, body: ChatRequest): string {
  const key = asksForToken ? 'os.environ["TOKEN"]' : '"none"';
  const fields = Object.entries(body).map(([name, value]) => `    ${name}=${literal(value, PYTHON, 1)},\n`);
  const said = body.tools ? 'said.tool_calls or said.content or ""' : 'said.content or ""';
  return [
    ...(asksForToken ? ['import os', ''] : []),
    'from openai import OpenAI',
    '',
    `client = OpenAI(base_url=${JSON.stringify(baseUrl)}, api_key=${key})`,
    `answer = client.chat.completions.create(\n${fields.join('')})`,
    ...(body.stream
      ? [
          'for chunk in answer:',
          '    if chunk.choices:',
          '        said = chunk.choices[0].delta',
          `        print(${said}, end="", flush=True)`,
          'print()',
        ]
      : ['said = answer.choices[0].message', `print(${said})`]),
  ].join('\n');
}

function javascript({ baseUrl, asksForToken }: Target, body: ChatRequest): string {
  const key = asksForToken ? 'process.env.TOKEN' : `'none'`;
  const content = `said?.content ?? ''`;
  const said = body.tools ? `said?.tool_calls ? JSON.stringify(said.tool_calls) : (${content})` : content;
  return [
    `import OpenAI from 'openai';`,
    '',
    `const client = new OpenAI({ baseURL: ${JSON.stringify(baseUrl)}, apiKey: ${key} });`,
    `const answer = await client.chat.completions.create(${literal(body, JAVASCRIPT, 0)});`,
    ...(body.stream
      ? [
          'for await (const chunk of answer) {',
          '  const said = chunk.choices[0]?.delta;',
          `  process.stdout.write(${said});`,
          '}',
          'console.log();',
        ]
      : ['const said = answer.choices[0].message;', `console.log(${said});`]),
  ].join('\n');
}

interface Language {
  indent: string;
  name(text: string): string;
  words: Record<string, string>;
}

const PYTHON: Language = {
  indent: '    ',
  name: (text) => JSON.stringify(text),
  words: { true: 'True', false: 'False', null: 'None' },
};
const JAVASCRIPT: Language = {
  indent: '  ',
  // As a plain name, "__proto__" would set the prototype.
  name: (text) =>
    /^[A-Za-z_$][\w$]*$/.test(text) && text !== '__proto__' ? text : `[${JSON.stringify(text)}]`,
  words: {},
};

/** Returns a value of JSON as source; strings of JSON are valid in both languages. */
function literal(value: unknown, language: Language, depth: number): string {
  if (typeof value !== 'object' || value === null) {
    const text = JSON.stringify(value);
    return language.words[text] ?? text;
  }
  const isArray = Array.isArray(value);
  const [open, close] = isArray ? '[]' : '{}';
  const parts = isArray
    ? value.map((item) => literal(item, language, depth + 1))
    : Object.entries(value).map(
        ([name, item]) => `${language.name(name)}: ${literal(item, language, depth + 1)}`,
      );
  if (parts.length === 0) return `${open}${close}`;
  const pad = language.indent.repeat(depth);
  return `${open}\n${parts.map((part) => `${pad}${language.indent}${part},\n`).join('')}${pad}${close}`;
}

/** The longest argument of a command: Linux accepts 128 KiB. */
const MOST_ARGUMENT_CHARACTERS = 40_000;

/**
 * Returns a command to be pasted into a shell.
 * @param asksForToken whether the queue asks for a token, which the command takes from the environment
 * @param body the body of a POST; left out for a GET
 */
export function curlCommand(url: string, asksForToken: boolean, body?: unknown): string {
  const lines = [`curl ${quoted(url)}`];
  if (asksForToken) lines.push(`-H "Authorization: Bearer $TOKEN"`);
  if (body === undefined) return lines.join(' \\\n  ');
  const text = JSON.stringify(body, null, 2);
  lines.push(`-H 'Content-Type: application/json'`);
  if (text.length <= MOST_ARGUMENT_CHARACTERS) return [...lines, `-d ${quoted(text)}`].join(' \\\n  ');
  // No line of JSON is the word END.
  return `${[...lines, `-d @- <<'END'`].join(' \\\n  ')}\n${text}\nEND`;
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
