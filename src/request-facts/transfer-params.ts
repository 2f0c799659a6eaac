import { beginsObject, membersOf, parseJsonBytes } from '../protocol/index.ts';
import { isNull, RequestFault, readingJson } from './json.ts';

/**
 * The fields by which engines hand caches to each other. A value that a caller made up ends an engine with a connector
 * for everybody, or has it connect to an address of the caller's; a stale one may give another prompt's answer.
 */
const TRANSFER_PARAMS = [
  // vLLM
  'kv_transfer_params',
  'ec_transfer_params',
  // FastDeploy
  'disaggregate_info',
  // SGLang
  'bootstrap_host',
  'bootstrap_port',
  'bootstrap_room',
  // TensorRT-LLM
  'disaggregated_params',
  // LMDeploy
  'migration_request',
] as const;

/** The objects under these names, in the body and within each other, from which engines also read these parameters. */
const PLACES = ['vllm_xargs', 'sampling_params', 'extra_args', 'extra_body'] as const;
/** The levels of nesting to read: engines read no deeper, and each level is another scan of all that stands in it. */
const MOST_LEVELS = 4;

export const TRANSFER_NAMES = [...TRANSFER_PARAMS, ...PLACES] as const;
const NAMES: ReadonlySet<string> = new Set(TRANSFER_NAMES);

type Fields = Partial<Record<string, Uint8Array>>;

/**
 * Refuses parameters that hand caches over.
 * @param fields the members of a body, as JSON
 * @param isOwn whether the worker itself requests the rest of an answer: then the prompt may be given as token ids
 * @throws RequestFault
 */
export function rejectTransferParams(fields: Fields, isOwn = false, level = 0): void {
  const found = TRANSFER_PARAMS.find(
    (name) => isGiven(fields[name]) && !(isOwn && isPromptIds(fields[name]!)),
  );
  if (found !== undefined) {
    const message = `${found} is for engines that hand caches to each other, and is not accepted from callers: leave it out.`;
    throw new RequestFault('transfer_params_refused', message);
  }
  for (const name of PLACES) {
    const place = fields[name];
    if (!beginsObject(place)) continue;
    if (level === MOST_LEVELS)
      throw new RequestFault(
        'nested_too_deep',
        `${name}: expected at most ${MOST_LEVELS} of ${PLACES.join(', ')} within each other.`,
      );
    for (const member of readingJson(() => transferMembers(place)))
      rejectTransferParams(member, false, level + 1);
  }
}

/** Returns the members one by one: where a name occurs twice, parsers differ in which one counts. */
function transferMembers(place: Uint8Array): Fields[] {
  return membersOf(place)
    .filter(({ name }) => NAMES.has(name))
    .map(({ name, valueStart, end }) => ({ [name]: place.subarray(valueStart, end) }));
}

/** Says whether the parameter only gives the token ids of the prompt, and so hands over no cache. */
function isPromptIds(json: Uint8Array): boolean {
  if (!beginsObject(json)) return false;
  const names = Object.keys(Object(readingJson(() => parseJsonBytes(json))));
  return names.every((name) => name === 'prompt_token_ids');
}

function isGiven(json: Uint8Array | undefined): boolean {
  return json !== undefined && !isNull(json);
}
