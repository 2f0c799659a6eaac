import { beginsObject } from '../protocol/index.ts';
import { BLOCK_ENDS, type Prefix } from '../queue/rpc.ts';
import { PROMPT_FIELDS, type PromptFields, SESSION_FIELDS } from '../request-facts/lengths.ts';

/** The longest name of a conversation, bytes. */
const SESSION_BYTES = 1024;

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const BASIS = 0x811c9dc5;
const PRIME = 0x01000193;

const encoder = new TextEncoder();

/** The tenant and the model of a prompt: prompts of others never count as alike. */
interface Owner {
  /**
   * The prompt's tenant; null where no tokens are configured. Tenants share no predictions: where a request goes, and
   * how soon, would tell one tenant what another has asked.
   */
  tenant: string | null;
  model: string | null;
}

/**
 * Hashes how a prompt begins, as its JSON without the blanks between values: messages, a text or the ids of tokens. By
 * the hashes the queue finds a worker whose engine has computed that beginning before.
 * @returns the hashes, or undefined where the prompt is shorter than a block and names no conversation
 */
export function prefixOf(fields: PromptFields, { tenant, model }: Owner): Prefix | undefined {
  const owner = fnv(BASIS, encoder.encode(JSON.stringify([tenant, model])));
  const { bytes, hashes } = hashesOf(fields, owner);
  const session = sessionOf(fields, owner);
  return hashes.length === 0 && session === 0 ? undefined : { session, bytes, hashes };
}

/** Returns FNV-1a hashes, 32 bits, of the text until the end of each block. */
function hashesOf(fields: PromptFields, owner: number): Pick<Prefix, 'bytes' | 'hashes'> {
  const hashes: number[] = [];
  let hash = owner;
  let bytes = 0;
  let end = BLOCK_ENDS[0]!;
  for (const [index, name] of PROMPT_FIELDS.entries()) {
    const json = fields[name];
    if (json === undefined) continue;
    hash = Math.imul(hash ^ index, PRIME);
    let isText = false;
    for (let at = 0; at < json.length; at++) {
      const byte = json[at] as number;
      if (!isText && byte <= 0x20) continue;
      if (byte === QUOTE && !(isText && isEscaped(json, at))) isText = !isText;
      hash = Math.imul(hash ^ byte, PRIME);
      bytes += 1;
      if (bytes < end) continue;
      hashes.push(hash >>> 2);
      if (hashes.length === BLOCK_ENDS.length) return { bytes, hashes };
      end = BLOCK_ENDS[hashes.length]!;
    }
  }
  return { bytes, hashes };
}

function isEscaped(json: Uint8Array, at: number): boolean {
  let before = at - 1;
  while (json[before] === BACKSLASH) before -= 1;
  return (at - 1 - before) % 2 === 1;
}

/**
 * Returns the hash of a conversation's whole name, so that `session-1` is not the beginning of `session-12`; 0 where
 * there is none.
 */
function sessionOf(fields: PromptFields, owner: number): number {
  for (const [index, name] of SESSION_FIELDS.entries()) {
    const json = fields[name];
    if (json === undefined || !isName(json)) continue;
    return fnv(Math.imul(owner ^ index, PRIME), json) >>> 2 || 1;
  }
  return 0;
}

/** Returns whether a value can name a conversation: it is neither empty, nor null, nor too long. */
function isName(json: Uint8Array): boolean {
  return (json[0] === QUOTE ? json.byteLength > 2 : beginsObject(json)) && json.byteLength <= SESSION_BYTES;
}

function fnv(basis: number, bytes: Uint8Array): number {
  let hash = basis;
  for (let at = 0; at < bytes.length; at++) hash = Math.imul(hash ^ (bytes[at] as number), PRIME);
  return hash;
}
