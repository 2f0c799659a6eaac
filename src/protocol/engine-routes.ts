/**
 * Which of an engine's routes callers and jobs may request. Gateway and worker use the same list: what is not inference
 * (`/sleep`, `/load_lora_adapter`, `/collective_rpc`, `/pause`, `/metrics`, …) belongs to the engine's operator, and
 * the worker holds the engine's key.
 */

/** Routes of vLLM and of engines like it, as they are named there. `{id}` stands for one segment. */
export const INFERENCE_ROUTES: readonly string[] = [
  'GET /v1/models',
  'GET /v1/models/{id}',
  'GET /v1/responses/{id}',
  'GET /version',
  'GET /ping',
  'POST /ping',
  'POST /v1/chat/completions',
  'POST /v1/chat/completions/batch',
  'POST /v1/chat/completions/render',
  'POST /v1/chat/completions/derender',
  'POST /v1/completions',
  'POST /v1/completions/render',
  'POST /v1/completions/derender',
  'POST /v1/responses',
  'POST /v1/responses/render',
  'POST /v1/responses/{id}/cancel',
  'DELETE /v1/responses/{id}',
  'POST /v1/messages',
  'POST /v1/messages/count_tokens',
  'POST /v1/messages/render',
  'POST /cohere/v2/chat',
  'POST /v1/embeddings',
  'POST /v2/embed',
  'POST /v1/rerank',
  'POST /v2/rerank',
  'POST /rerank',
  'POST /v1/score',
  'POST /score',
  'POST /v1/pooling',
  'POST /pooling',
  'POST /v1/classify',
  'POST /classify',
  'POST /v1/tokenize',
  'POST /tokenize',
  'POST /v1/detokenize',
  'POST /detokenize',
  'POST /v1/audio/speech',
  'POST /v1/audio/transcriptions',
  'POST /v1/audio/translations',
  'POST /v1/images/generations',
  'POST /v1/images/edits',
  'POST /v1/images/variations',
  'POST /v1/moderations',
  'POST /v1/videos/generations',
  'POST /v1/systemone',
  'POST /inference/v1/generate',
  'POST /generative_scoring',
  'POST /invocations',
];

/** A list of routes that may be requested. */
export interface RouteList {
  /**
   * Returns whether an engine may be asked for this route.
   * @param path with or without a query; one that is not a plain path (`isPlainPath`) is on no list
   */
  has(method: string, path: string): boolean;
  /** Returns the methods with which a path may be requested; empty if the list does not have it. */
  methodsOf(path: string): readonly string[];
}

/** Matches nearly every path that is requested, so that one test decides. */
const ONLY_WORDS = /^(?:\/[\w-]+)+$/;

const ENTRY = /^([+-]?)\s*(GET|POST|DELETE)\s+(\/\S*)$/;

/**
 * Builds the list of this file, or a changed one: `+POST /v1/ocr` adds a route to it and `-POST /invocations` takes one
 * away, comma-separated; entries without a sign stand for the whole list.
 * @throws Error that says what is wrong
 */
export function inferenceRoutes(changes = ''): RouteList {
  const entries = changes
    .split(',')
    .map((text) => text.trim())
    .filter((text) => text !== '')
    .map(readEntry);
  const whole = entries.filter(({ sign }) => sign === '');
  if (whole.length > 0 && whole.length < entries.length) {
    throw new Error('either every entry has a sign, or none: without signs they are the whole list');
  }
  const routes = new Set(whole.length > 0 ? [] : INFERENCE_ROUTES);
  for (const { sign, route } of entries) {
    if (sign !== '-') routes.add(route);
    else if (!routes.delete(route))
      throw new Error(`"${route}" is none of the routes, so it cannot be taken away`);
  }
  return routeList(routes);
}

function readEntry(text: string): { sign: string; route: string } {
  const [, sign, method, path] = ENTRY.exec(text) ?? [];
  if (sign !== undefined && isPlainPath(path!.replaceAll('{id}', 'id')))
    return { sign, route: `${method} ${path}` };
  throw new Error(`expected routes such as "+POST /v1/ocr" or "-POST /invocations"; got "${text}"`);
}

function routeList(routes: Iterable<string>): RouteList {
  const paths = new Map<string, string[]>();
  for (const route of routes) {
    const [method, path] = route.split(' ') as [string, string];
    paths.set(method, [...(paths.get(method) ?? []), path]);
  }
  const patterns = [...paths].map(([method, list]) => [method, patternOf(list)] as const);
  const methodsOf = (path: string): string[] => {
    if (!isPlainPath(path)) return [];
    const [plain] = path.split('?', 1) as [string];
    return patterns.filter(([, pattern]) => pattern.test(plain)).map(([method]) => method);
  };
  return { methodsOf, has: (method, path) => methodsOf(path).includes(method) };
}

function patternOf(paths: readonly string[]): RegExp {
  const escaped = paths.map((path) =>
    path
      .split('{id}')
      .map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'))
      .join('[^/]+'),
  );
  return new RegExp(`^(?:${escaped.join('|')})/?$`);
}

const DEFAULT_LIST = inferenceRoutes();

/** Returns whether an engine may be asked for this route by default. */
export function isInferenceRoute(method: string, path: string): boolean {
  return DEFAULT_LIST.has(method, path);
}

/**
 * Returns whether a path means the same to everyone who reads it: visible ASCII, and in front of the query no empty,
 * `.` or `..` segment, no backslash and no encoded one of these.
 */
export function isPlainPath(path: string): boolean {
  if (ONLY_WORDS.test(path)) return true;
  if (!/^\/[\x21-\x7e]*$/.test(path) || path.includes('#')) return false;
  const segments = (path.split('?', 1)[0] as string).split('/').slice(1);
  return segments.every((segment, index) => {
    const isLast = index === segments.length - 1;
    if (segment === '') return isLast;
    return !/^\.{1,2}$/.test(segment.replace(/%2e/gi, '.')) && !/\\|%2f|%5c|%00/i.test(segment);
  });
}
