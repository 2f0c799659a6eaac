import { sha256 } from '@noble/hashes/sha2.js';
import { randomText } from './random-text.ts';
import { timeOrderedId } from './time-ordered-id.ts';

/**
 * The ids that the server makes for what callers ask for later: `idOf` makes them, `placeOf` reads them.
 *
 * Such an id says where its thing is. Behind the prefix of its kind stand the generation of the layout, one digit, and
 * the tag of the queue, four digits. Nothing is routed by them today, since each queue has one owner. A layout that
 * splits a queue among several owners would count as the next generation, and a request that names an id would be sent
 * by these digits to the owner that has the thing, without a directory. They are written before anything reads them,
 * because ids cannot get them afterwards: callers keep the ids that they were given.
 *
 * What is only found through something else needs no place: a file with a job's payload or result is named by the job's
 * row, an item by its response or conversation.
 *
 * The published `worker-vllm/protocol` leaves this file out, since it needs a library for the hash of a queue's id.
 */

/** Where the thing of an id is. */
export interface Place {
  /** The number of the layout by which things were placed when the id was made. */
  generation: number;
  /** The tag of the queue. */
  tag: string;
}

const DIGITS = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';

/** The number of today's layout: each queue has one owner. */
const GENERATION = 1;
const TAG_DIGITS = 4;

/** The part of an id behind its place: how it is made, and what it looks like. */
interface Rest {
  make(): string;
  form: string;
}

const UUID_FORM = '[\\da-f]{8}(?:-[\\da-f]{4}){3}-[\\da-f]{12}';
const TIMED: Rest = { make: timeOrderedId, form: UUID_FORM };
const UUID: Rest = { make: () => crypto.randomUUID(), form: UUID_FORM };
const RUNPOD: Rest = { make: () => `${timeOrderedId()}-u1`, form: `${UUID_FORM}-u1` };
/** 62^24 is more than 2^142, so an id cannot be guessed. The job of a batch's line has its number behind it. */
const LETTERS: Rest = { make: () => randomText(24, DIGITS), form: '[\\dA-Za-z]{24}(?:\\.\\d+)?' };

/** The beginning of the ids of each kind, and what stands behind their place. */
const KINDS = {
  job: { prefix: 'job_', rest: TIMED },
  /** A request to `/v1/…`; it is the id of its job too. */
  request: { prefix: 'req_', rest: UUID },
  /** A job in RunPod's form: its clients know jobs of `run` and of `runsync` apart by how ids begin and end. */
  runpod: { prefix: '', rest: RUNPOD },
  runpod_sync: { prefix: 'sync-', rest: RUNPOD },
  batch: { prefix: 'batch_', rest: LETTERS },
  file: { prefix: 'file-', rest: LETTERS },
  response: { prefix: 'resp_', rest: LETTERS },
  conversation: { prefix: 'conv_', rest: LETTERS },
} as const satisfies Record<string, { prefix: string; rest: Rest }>;

/** A kind of thing that gets an id from the server. */
export type IdKind = keyof typeof KINDS;

/** Makes an id for a thing of a queue. */
export function idOf(kind: IdKind, queueId: string): string {
  const { prefix, rest } = KINDS[kind];
  return `${prefix}${DIGITS[GENERATION]}${tagOf(queueId)}${rest.make()}`;
}

const PLACE_FORM = `(?<generation>[\\dA-Za-z])(?<tag>[\\dA-Za-z]{${TAG_DIGITS}})`;
const FORMS = Object.values(KINDS).map(
  ({ prefix, rest }) => new RegExp(`^(?<prefix>${prefix})${PLACE_FORM}(?<rest>${rest.form})$`),
);

/** Returns the parts of an id with a place, or null. */
function partsOf(id: string) {
  for (const form of FORMS) {
    const parts = form.exec(id)?.groups;
    if (parts) return parts as { prefix: string; generation: string; tag: string; rest: string };
  }
  return null;
}

/**
 * Reads where the thing of an id is. An id that a caller chose in the same form reads as the server's do: whoever
 * places things by ids has to place that one by what it says, too.
 * @returns null for ids made before ids had a place, and for those that callers chose
 */
export function placeOf(id: string): Place | null {
  const parts = partsOf(id);
  return parts && { generation: DIGITS.indexOf(parts.generation), tag: parts.tag };
}

/** Returns an id from behind its place on, which is where ids of one kind and queue begin to differ. */
export function behindPlace(id: string): string {
  return partsOf(id)?.rest ?? id;
}

/** The tags of queues that were named: each id needs one. */
const tags = new Map<string, string>();
/** A pattern in QUEUE_IDS lets callers name any number of queues. */
const MOST_TAGS = 1000;

/** Returns the tag of a queue: 14.8 million are possible, so two queues of an installation hardly share one. */
export function tagOf(queueId: string): string {
  const known = tags.get(queueId);
  if (known !== undefined) return known;
  // The hash of `crypto.subtle` is asynchronous, and the queue's commits are not.
  const bytes = sha256(new TextEncoder().encode(queueId));
  let number = new DataView(bytes.buffer, bytes.byteOffset).getUint32(0);
  let tag = '';
  for (let digit = 0; digit < TAG_DIGITS; digit += 1) {
    tag += DIGITS[number % DIGITS.length];
    number = Math.floor(number / DIGITS.length);
  }
  if (tags.size >= MOST_TAGS) tags.clear();
  tags.set(queueId, tag);
  return tag;
}
