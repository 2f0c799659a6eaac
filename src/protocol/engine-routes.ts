/**
 * Which of an engine's routes a job may ask for. Gateway and worker use the same list: what is not inference
 * (`/sleep`, `/load_lora_adapter`, `/collective_rpc`, `/pause`, `/metrics`, …) belongs to the engine's operator,
 * and the worker holds the engine's key.
 */

/** Routes of vLLM and of engines like it, as they are named there. `{id}` stands for one segment. */
const INFERENCE_ROUTES: Record<string, readonly string[]> = {
  GET: ['/v1/models', '/v1/models/{id}', '/v1/responses/{id}', '/version', '/ping'],
  POST: [
    '/v1/chat/completions',
    '/v1/chat/completions/batch',
    '/v1/chat/completions/render',
    '/v1/chat/completions/derender',
    '/v1/completions',
    '/v1/completions/render',
    '/v1/completions/derender',
    '/v1/responses',
    '/v1/responses/{id}/cancel',
    '/v1/messages',
    '/v1/messages/count_tokens',
    '/v1/embeddings',
    '/v2/embed',
    '/v1/rerank',
    '/v2/rerank',
    '/rerank',
    '/v1/score',
    '/score',
    '/v1/pooling',
    '/pooling',
    '/v1/classify',
    '/classify',
    '/v1/tokenize',
    '/tokenize',
    '/v1/detokenize',
    '/detokenize',
    '/v1/audio/speech',
    '/v1/audio/transcriptions',
    '/v1/audio/translations',
    '/v1/images/generations',
    '/v1/images/edits',
    '/v1/images/variations',
    '/v1/moderations',
    '/inference/v1/generate',
    '/generative_scoring',
    '/invocations',
  ],
  DELETE: ['/v1/responses/{id}'],
};

const PATTERNS = new Map(
  Object.entries(INFERENCE_ROUTES).map(([method, routes]) => [
    method,
    new RegExp(`^(?:${routes.map((route) => route.replace('{id}', '[^/]+')).join('|')})/?$`),
  ]),
);

/**
 * Whether an engine may be asked for this by a job.
 * @param path with or without a query; one that is not a plain path (`isPlainPath`) is none
 */
export function isInferenceRoute(method: string, path: string): boolean {
  return isPlainPath(path) && (PATTERNS.get(method)?.test(path.split('?', 1)[0] as string) ?? false);
}

/**
 * Whether a path means the same to everyone who reads it: visible ASCII, and in front of the query no empty, `.`
 * or `..` segment, no backslash and no encoded one of these.
 */
export function isPlainPath(path: string): boolean {
  if (!/^\/[\x21-\x7e]*$/.test(path) || path.includes('#')) return false;
  const segments = (path.split('?', 1)[0] as string).split('/').slice(1);
  return segments.every((segment, index) => {
    const isLast = index === segments.length - 1;
    if (segment === '') return isLast;
    return !/^\.{1,2}$/.test(segment.replace(/%2e/gi, '.')) && !/\\|%2f|%5c|%00/i.test(segment);
  });
}
