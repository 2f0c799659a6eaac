import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { readJson, sendJson } from './http.ts';

/** vLLM's prefix cache: the blocks of prompts that the engine has computed, each with all blocks before it. */
export class PrefixCache {
  readonly #blockTokens: number;
  readonly #most: number;
  /** The computed prefixes, each a prompt up to the end of a block. The one used last comes last. */
  readonly #computed = new Set<string>();

  /** @param most the most blocks that are kept */
  constructor(blockTokens: number, most: number) {
    this.#blockTokens = blockTokens;
    this.#most = most;
  }

  /**
   * Computes a prompt, and stores its blocks.
   * @param root an adapter or a salt: prompts with different roots share nothing
   * @returns how many tokens had been computed before; never the last one, from which the answer is generated
   */
  compute(ids: readonly number[], root: string): number {
    let cached = 0;
    let isKnown = true;
    let [one, other] = [0x811c9dc5, 0x9747b28c];
    for (const [at, id] of ids.entries()) {
      one = Math.imul(one ^ id, 0x01000193);
      other = Math.imul(other + id, 0x85ebca6b) ^ (other >>> 13);
      if ((at + 1) % this.#blockTokens > 0) continue;
      const block = `${root} ${one} ${other}`;
      isKnown &&= this.#computed.delete(block);
      if (isKnown && at + 1 < ids.length) cached = at + 1;
      this.#computed.delete(block);
      this.#computed.add(block);
    }
    for (const oldest of this.#computed) {
      if (this.#computed.size <= this.#most) break;
      this.#computed.delete(oldest);
    }
    return cached;
  }

  clear(): void {
    this.#computed.clear();
  }
}

/**
 * The rest of this file simulates vLLM's NixlConnector: blocks of a prompt stay at the engine that prefilled it until
 * the decoding engine has read them. Requests use it by `kv_transfer_params`, as vLLM 0.32 reads them.
 */

type Params = Record<string, unknown>;
type Handler = (request: IncomingMessage, response: ServerResponse) => Promise<void>;

/** The connector's settings from `--kv-transfer-config`. */
export interface KvTransferConfig {
  /** The outcome of a request whose blocks cannot be read. */
  policy: 'fail' | 'recompute';
}

/** The result of reading a request's blocks. */
export type Blocks =
  | { case: 'none' }
  | { case: 'read'; ids: readonly number[] }
  /** Nobody has the blocks, or nobody answers. */
  | { case: 'lost' }
  /** The blocks do not fit: the engine that reads them dies. */
  | { case: 'fatal' };

const BLOCKS_ROUTE = '/simulator/blocks';
const BLOCK_TOKENS = 128;
/** vLLM's `kv_lease_duration`. */
const LEASE_MS = 30_000;

/** Reads `--kv-transfer-config`. @returns null: no connector, and the fields do nothing @throws Error for bad JSON */
export function readKvTransferConfig(text: string): KvTransferConfig | null {
  const { kv_connector, kv_load_failure_policy } = JSON.parse(text) as Params;
  if (kv_connector !== 'NixlConnector') return null;
  return { policy: kv_load_failure_policy === 'recompute' ? 'recompute' : 'fail' };
}

/** The connector of one engine. */
export class KvTransfer {
  readonly config: KvTransferConfig;
  readonly #engineId = randomUUID();
  readonly #kept = new Map<string, { ids: readonly number[]; until: number }>();

  constructor(config: KvTransferConfig) {
    this.config = config;
  }

  /** Returns the routes by which other engines read blocks; vLLM has separate ports for that. */
  routes(): Record<string, { POST: Handler }> {
    const POST: Handler = async (request, response) => {
      const ids = this.#give(await readJson(request));
      sendJson(response, ids === null ? 404 : 200, ids);
    };
    return { [BLOCKS_ROUTE]: { POST } };
  }

  /** Stores the blocks computed for a request with `do_remote_decode`. Returns the answer's `kv_transfer_params`. */
  keep(ids: readonly number[], address: AddressInfo): Params {
    const id = `cmpl-${randomUUID()}`;
    const now = performance.now();
    for (const [old, { until }] of this.#kept) if (until < now) this.#kept.delete(old);
    this.#kept.set(id, { ids, until: now + LEASE_MS });
    return {
      do_remote_prefill: true,
      do_remote_decode: false,
      remote_block_ids: [Array.from({ length: Math.ceil(ids.length / BLOCK_TOKENS) }, (_, at) => at + 1)],
      remote_engine_id: this.#engineId,
      remote_request_id: id,
      remote_host: address.address,
      remote_port: address.port,
      tp_size: 1,
      dcp_size: 1,
      pp_size: 1,
      remote_num_tokens: ids.length,
      remote_blocks_expiry_time: null,
      transfer_mode: 'pull',
      remote_prefill_cached_tokens: 0,
    };
  }

  /**
   * Gives blocks away, once. vLLM reads whatever the blocks hold: once freed, they hold another prompt's. Returns null
   * if the request means another engine, or the blocks are too old to be remembered.
   */
  #give({ engine_id, request_id }: Params): readonly number[] | null {
    if (engine_id !== this.#engineId) return null;
    const kept = this.#kept.get(String(request_id));
    if (kept === undefined) return null;
    const { ids, until } = kept;
    const others = ids.map((one) => one + 1);
    kept.ids = others;
    return performance.now() < until ? ids : others;
  }

  /** Reads the blocks that a request names. @param promptTokens the number of tokens that they have to hold */
  async read(params: Params, promptTokens: number): Promise<Blocks> {
    if (params.do_remote_prefill !== true) return { case: 'none' };
    const { remote_engine_id, remote_request_id, remote_host, remote_port, remote_block_ids } = params;
    // vLLM asserts these fields, or waits for them endlessly.
    if (!Array.isArray(remote_block_ids) || !remote_engine_id || !remote_request_id) return { case: 'fatal' };
    const ids = await ask(`http://${remote_host}:${remote_port}${BLOCKS_ROUTE}`, {
      engine_id: remote_engine_id,
      request_id: remote_request_id,
    });
    if (ids === null) return { case: 'lost' };
    return ids.length < promptTokens ? { case: 'fatal' } : { case: 'read', ids: ids.slice(0, promptTokens) };
  }
}

async function ask(url: string, body: Params): Promise<number[] | null> {
  try {
    const headers = { 'content-type': 'application/json' };
    const answer = await fetch(url, { method: 'POST', headers, body: JSON.stringify(body) });
    return answer.ok ? ((await answer.json()) as number[]) : null;
  } catch {
    return null;
  }
}
