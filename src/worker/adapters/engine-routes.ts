import { type EngineClient, readText } from '../../engine/client/types.ts';
import { engineMessage, jsonOrText } from '../../protocol/index.ts';

/** vLLM's routes that load and unload adapters while it runs, as version 0.32 answers them. */

/** Loading reads a file and copies it to the GPU; an engine that takes longer than this hangs, ms. */
const LOAD_WITHIN_MS = 120_000;

const NO_ROUTE =
  'the engine has no route to load adapters: vLLM needs --enable-lora and VLLM_ALLOW_RUNTIME_LORA_UPDATING=True';

type Engine = Pick<EngineClient, 'request'>;

/**
 * Loads an adapter.
 * @param folder of the engine's machine
 * @returns the reason why the adapter was not loaded; null: it is loaded, now or since before
 */
export async function loadAdapter(engine: Engine, name: string, folder: string): Promise<string | null> {
  const { status, text } = await post(engine, 'load', { lora_name: name, lora_path: folder });
  if (status < 300) return null;
  const said = messageIn(text);
  if (status === 400 && said.includes('has already been loaded')) return null;
  return isMissingRoute(status, text) ? NO_ROUTE : said;
}

/**
 * Unloads an adapter.
 * @returns the reason why the adapter was not unloaded; null: it is unloaded, or was not loaded
 */
export async function unloadAdapter(engine: Engine, name: string): Promise<string | null> {
  const { status, text } = await post(engine, 'unload', { lora_name: name });
  if (status < 300) return null;
  if (isMissingRoute(status, text)) return NO_ROUTE;
  return status === 404 ? null : messageIn(text);
}

async function post(
  engine: Engine,
  what: 'load' | 'unload',
  body: object,
): Promise<{ status: number; text: string }> {
  const answer = await engine.request({
    method: 'POST',
    path: `/v1/${what}_lora_adapter`,
    contentType: 'application/json',
    body: JSON.stringify(body),
    signal: AbortSignal.timeout(LOAD_WITHIN_MS),
  });
  return { status: answer.status, text: await readText(answer.body) };
}

/** Recognises FastAPI's own answer, which says nothing of an adapter. */
function isMissingRoute(status: number, text: string): boolean {
  return (status === 404 || status === 405) && /"detail"\s*:\s*"(?:Not Found|Method Not Allowed)"/.test(text);
}

function messageIn(text: string): string {
  return engineMessage(jsonOrText(text)) ?? 'the engine did not say why';
}
