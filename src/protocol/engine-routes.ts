import { BASE_TASKS } from './base.ts';

/**
 * Lists the routes of an engine that callers and jobs may request. Gateway and worker use the same list: what is not
 * inference (`/sleep`, `/load_lora_adapter`, `/collective_rpc`, `/pause`, `/metrics`, …) belongs to the engine's
 * operator, and the worker holds the engine's key.
 */

/**
 * The APIs to which routes belong, as far as errors differ. `responses` is OpenAI's API with event streams of its own,
 * `runpod` that of RunPod's endpoints, which stream nothing.
 */
export const DIALECTS = ['openai', 'responses', 'anthropic', 'runpod'] as const;
export type Dialect = (typeof DIALECTS)[number];

type Method = 'GET' | 'POST' | 'DELETE';

/** The facts about one route of an engine: all that gateway, queue and worker decide by the route stands here. */
export interface EngineRoute {
  /** The path as vLLM and engines like it name it. `{id}` stands for one segment. */
  readonly path: string;
  readonly methods: readonly Method[];
  /**
   * The form of an answer. `json`: JSON in one piece, or events where the request asks for a stream; `text`: the same,
   * but a whole answer may be of any type, or empty; `bytes`: never events that the gateway could begin, such as audio.
   */
  readonly answers: 'json' | 'text' | 'bytes';
  /** The list that every whole answer has and no error has, in any form; null: none is known. */
  readonly list: 'choices' | 'content' | 'output' | 'data' | null;
  /** Whether a stream is incomplete without a closing event. */
  readonly closes: boolean;
  /**
   * The form in which a request says how many tokens are generated; null: none are. `chats` has several chats in one
   * request; `invocation` is a chat or a text, as its body has `messages` or not.
   */
  readonly generates: 'chat' | 'chats' | 'text' | 'tokens' | 'response' | 'message' | 'invocation' | null;
  /** The form in which another worker can go on with an answer (docs/moving.md); null: answers stay where they are. */
  readonly moves: 'chat' | 'text' | 'tokens' | null;
  readonly dialect: Dialect;
  /** The base protocol's task whose payload is this route's body, so that a base worker can run it; null: none. */
  readonly task: string | null;
  /** The base protocol's tasks that ask for this route, with payloads that are other bodies. */
  readonly otherTasks: readonly string[];
  /** The operation in OpenTelemetry's words for generative AI; null: it has none but the path's last segment. */
  readonly operation: 'chat' | 'text_completion' | 'embeddings' | null;
  /** Whether the route takes audio as a form, so that a request in JSON says where the audio lies. */
  readonly takesAudio: boolean;
  /** Whether any engine can answer, whatever model it serves. */
  readonly isOfAnyModel: boolean;
}

const PLAIN: Omit<EngineRoute, 'path'> = {
  methods: ['POST'],
  answers: 'json',
  list: null,
  closes: false,
  generates: null,
  moves: null,
  dialect: 'openai',
  task: null,
  otherTasks: [],
  operation: null,
  takesAudio: false,
  isOfAnyModel: false,
};

function route(path: string, columns: Partial<EngineRoute> = {}): EngineRoute {
  return { path, ...PLAIN, ...columns };
}

const CHAT = { operation: 'chat' } as const;
const TEXT = { operation: 'text_completion' } as const;
const EMBEDS = { operation: 'embeddings' } as const;
const RESPONSE = { ...CHAT, dialect: 'responses' } as const;
const MESSAGE = { ...CHAT, dialect: 'anthropic' } as const;
const CHOICES = { list: 'choices', closes: true } as const;
const { textToVideo, imageToVideo, speechToVideo } = BASE_TASKS;

/** The path of a chat. */
export const CHAT_PATH = '/v1/chat/completions';
/** The path of a text that is continued. */
export const COMPLETIONS_PATH = '/v1/completions';

/** The table of routes: those of vLLM, as it names them, and of engines like it. */
export const ENGINE_ROUTES: readonly EngineRoute[] = [
  route('/v1/models', { methods: ['GET'] }),
  route('/v1/models/{id}', { methods: ['GET'] }),
  route('/version', { methods: ['GET'], isOfAnyModel: true }),
  route('/ping', { methods: ['GET', 'POST'], answers: 'text', isOfAnyModel: true }),
  route(CHAT_PATH, { ...CHAT, ...CHOICES, generates: 'chat', moves: 'chat', task: BASE_TASKS.chat }),
  route('/v1/chat/completions/batch', { ...CHAT, generates: 'chats' }),
  route('/v1/chat/completions/render', CHAT),
  route('/v1/chat/completions/derender', CHAT),
  route(COMPLETIONS_PATH, { ...TEXT, ...CHOICES, generates: 'text', moves: 'text' }),
  route('/v1/completions/render', TEXT),
  route('/v1/completions/derender', TEXT),
  route('/v1/responses', { ...RESPONSE, list: 'output', closes: true, generates: 'response' }),
  route('/v1/responses/render', RESPONSE),
  route('/v1/messages', { ...MESSAGE, list: 'content', closes: true, generates: 'message' }),
  route('/v1/messages/count_tokens', MESSAGE),
  route('/v1/messages/render', MESSAGE),
  route('/cohere/v2/chat', { ...CHAT, generates: 'message' }),
  route('/v1/embeddings', { ...EMBEDS, list: 'data', task: BASE_TASKS.embeddings }),
  route('/v2/embed', EMBEDS),
  route('/v1/rerank'),
  route('/v2/rerank'),
  route('/rerank'),
  route('/v1/score'),
  route('/score'),
  route('/v1/pooling', EMBEDS),
  route('/pooling', EMBEDS),
  route('/v1/classify'),
  route('/classify'),
  route('/v1/tokenize'),
  route('/tokenize'),
  route('/v1/detokenize'),
  route('/detokenize'),
  route('/v1/audio/speech', { answers: 'bytes', task: BASE_TASKS.speech }),
  route('/v1/audio/transcriptions', {
    answers: 'text',
    takesAudio: true,
    otherTasks: [BASE_TASKS.transcription],
  }),
  route('/v1/audio/translations', { answers: 'text', takesAudio: true }),
  route('/v1/images/generations'),
  route('/v1/images/edits'),
  route('/v1/images/variations'),
  route('/v1/moderations'),
  route('/v1/videos/generations', { otherTasks: [textToVideo, imageToVideo, speechToVideo] }),
  route('/v1/systemone'),
  route('/inference/v1/generate', { ...TEXT, ...CHOICES, generates: 'tokens', moves: 'tokens' }),
  route('/generative_scoring'),
  route('/invocations', { ...TEXT, generates: 'invocation' }),
];

/** The routes as an operator lists them: `POST /v1/completions`. */
export const INFERENCE_ROUTES: readonly string[] = ENGINE_ROUTES.flatMap(({ path, methods }) =>
  methods.map((method) => `${method} ${path}`),
);

const BY_PATH = new Map(ENGINE_ROUTES.map((row) => [row.path, row]));
const WITH_ID = ENGINE_ROUTES.filter(({ path }) => path.includes('{id}')).map(
  (row) => [patternOf([row.path]), row] as const,
);
/** The routes by how their paths end behind a version, the longest ending first. */
const BY_ENDING = ENGINE_ROUTES.filter(({ path }) => !path.includes('{id}'))
  .map((row) => [row.path.replace(/^\/v\d(?=\/)/, ''), row] as const)
  .sort(([a], [b]) => b.length - a.length);

/** Returns a path without its query and without a slash at its end. */
export function plainPath(path: string): string {
  return path.split('?', 1)[0]!.replace(/(?<=.)\/$/, '');
}

/** Returns the route with exactly this path; null: there is none, or something stands beside it, such as a query. */
export function routeAt(path: string): EngineRoute | null {
  return BY_PATH.get(path) ?? null;
}

/** Returns the route of a path, with or without a query and a slash at its end; null for one that is unknown here. */
export function engineRoute(path: string): EngineRoute | null {
  const known = BY_PATH.get(path);
  if (known) return known;
  const plain = plainPath(path);
  return BY_PATH.get(plain) ?? WITH_ID.find(([pattern]) => pattern.test(plain))?.[1] ?? null;
}

/** Returns whether answers of a route are choices, each with a reason for its end. */
export function hasChoices(path: string): boolean {
  return engineRoute(path)?.list === 'choices';
}

/**
 * Returns the route that a path is or ends like: an operator may add a route that an engine has under another prefix,
 * such as `/v3/chat/completions`.
 */
export function routeLike(path: string): EngineRoute | null {
  const known = engineRoute(path);
  if (known) return known;
  const plain = plainPath(path);
  return BY_ENDING.find(([ending]) => plain.endsWith(ending))?.[1] ?? null;
}

const RUNPOD_ROUTE =
  /^\/v2\/[^/]+\/(?:run|runsync|purge-queue|health|(?:status|stream|cancel|retry)\/[^/]+)(?=\?|$)/;

const FAMILY = /\/v1\/[^/?]+/;

/** The APIs of routes that are not OpenAI's, by the paths under which all of their routes lie. */
const FAMILIES = new Map(
  ENGINE_ROUTES.filter(({ path, dialect }) => dialect !== 'openai' && FAMILY.exec(path)?.[0] === path).map(
    ({ path, dialect }) => [path, dialect],
  ),
);

/** Returns the API that a route belongs to. @param path wherever it is mounted, with or without a query */
export function dialectOf(path: string): Dialect {
  const known = routeAt(path);
  if (known) return known.dialect;
  if (RUNPOD_ROUTE.test(path)) return 'runpod';
  return FAMILIES.get(FAMILY.exec(path)?.[0] ?? '') ?? 'openai';
}

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
