import { findProgram, readEngineConfiguration } from '../engine/command/configuration.ts';
import { describeEngine } from '../engine/kinds/index.ts';

/** The engine that a command runs on this machine. */
interface ChosenEngine {
  /** The environment, completed so that the supervisor chooses the same engine. */
  env: NodeJS.ProcessEnv;
  isSimulated: boolean;
  /** The line that tells the user which engine was chosen. */
  announcement: string;
}

/** The simulator's model if none is named. */
const SIMULATED_MODEL = 'simulated';

/**
 * Chooses an engine: `ENGINE_URL` attaches to a running one, `VLLM_MODEL` asks for vLLM, and neither means the
 * simulator. `ENGINE`, if set, decides.
 * @throws UserError when a variable is bad or vLLM is not installed; never chooses something else silently
 */
export function chooseEngine(env: NodeJS.ProcessEnv): ChosenEngine {
  const completed = withEngine(env);
  const isSimulated = completed.ENGINE === 'simulator';
  const configuration = readEngineConfiguration(completed);
  const engine = describeEngine(configuration.engine);
  if (configuration.settings && engine.command) {
    findProgram(engine.command(configuration.settings).program, engine, completed);
  }
  return { env: completed, isSimulated, announcement: announcementOf(configuration) };
}

/** Returns the environment with the simulator in it if no other engine was requested. */
export function withEngine(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const isSimulated = env.ENGINE
    ? env.ENGINE === 'simulator'
    : !env.ENGINE_URL?.trim() && !env.VLLM_MODEL?.trim();
  if (!isSimulated) return env;
  return { ...env, ENGINE: 'simulator', VLLM_MODEL: env.VLLM_MODEL?.trim() || SIMULATED_MODEL };
}

/** The hint on how to leave the simulator. */
const REAL_ENGINE_HINT = `
  Answers are SIMULATED: no model runs here. For real ones, either
    VLLM_MODEL=Qwen/Qwen3-0.6B npx worker-vllm up          serves a model with vLLM (pip install vllm)
    ENGINE_URL=http://127.0.0.1:11434 npx worker-vllm up   attaches to an engine that runs (vLLM, Ollama, llama.cpp)
`;

function announcementOf({ engine, url, model }: ReturnType<typeof readEngineConfiguration>): string {
  if (engine === 'simulator') return 'Engine: a simulator. Answers are SIMULATED: no model runs here.';
  if (engine === 'external') return `Engine: the one that runs at ${url}.`;
  return `Engine: ${describeEngine(engine).title} with ${model}. Loading a model can take minutes, the first time longer.`;
}

interface Welcome {
  /** The queue's URL, without a trailing slash. */
  url: string;
  model: string;
  asksForTokens: boolean;
  isSimulated: boolean;
}

/** Returns requests that start the workers of a fleet: a single one, and many concurrent ones. */
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

/** Returns the address, and a first request by curl and by the OpenAI SDK that works when pasted. */
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
