/** Who plays in the demonstration: 20 workers of four pools, and what becomes of some of them. */

export interface DemoPool {
  id: string;
  model: string;
  slots: number;
  tokensPerSecond: number;
  firstTokenMs: number;
  gpu: { name: string; count: number; memoryGib: number; watts: number };
  /** How long a start takes, s. */
  startSeconds: number;
  /** Stored jobs that are kept in flight, and callers that wait for streams. */
  load: { stored: number; callers: number; maxTokens: number };
}

const H100 = { name: 'NVIDIA H100 80GB HBM3', memoryGib: 80, watts: 700 };
const A100 = { name: 'NVIDIA A100-SXM4-80GB', memoryGib: 80, watts: 400 };
const L40S = { name: 'NVIDIA L40S', memoryGib: 48, watts: 350 };
const L4 = { name: 'NVIDIA L4', memoryGib: 24, watts: 72 };

const llama: DemoPool = {
  id: 'llama-8b',
  model: 'meta-llama/Llama-3.1-8B-Instruct',
  slots: 8,
  tokensPerSecond: 48,
  firstTokenMs: 180,
  gpu: { ...L40S, count: 1 },
  startSeconds: 95,
  load: { stored: 20, callers: 14, maxTokens: 600 },
};
const qwen: DemoPool = {
  id: 'qwen-72b',
  model: 'Qwen/Qwen2.5-72B-Instruct',
  slots: 12,
  tokensPerSecond: 26,
  firstTokenMs: 420,
  gpu: { ...H100, count: 4 },
  startSeconds: 260,
  load: { stored: 22, callers: 12, maxTokens: 700 },
};
const mistral: DemoPool = {
  id: 'mistral-24b',
  model: 'mistralai/Mistral-Small-3.2-24B-Instruct-2506',
  slots: 6,
  tokensPerSecond: 35,
  firstTokenMs: 300,
  gpu: { ...A100, count: 2 },
  startSeconds: 150,
  // More than its slots, so that some wait.
  load: { stored: 28, callers: 8, maxTokens: 500 },
};
const embeddings: DemoPool = {
  id: 'bge-m3',
  model: 'BAAI/bge-m3',
  slots: 32,
  tokensPerSecond: 0,
  firstTokenMs: 150,
  gpu: { ...L4, count: 1 },
  startSeconds: 40,
  load: { stored: 0, callers: 3, maxTokens: 0 },
};

export const POOLS: readonly DemoPool[] = [llama, qwen, mistral, embeddings];

/**
 * - `works`: takes jobs all the time
 * - `presses`: its KV cache is full, so it takes none for now
 * - `loads`: starts, is ready for a minute, and starts again
 * - `vanishes`: takes jobs, then is gone without a word
 * - `drains`: takes jobs that never end, and drains
 * - `fails`: its engine does not start
 */
type Role = 'works' | 'presses' | 'loads' | 'vanishes' | 'drains' | 'fails';

export interface DemoPart {
  workerId: string;
  pool: DemoPool;
  role: Role;
  /** How long ago its container was created, s. */
  ageSeconds: number;
  /** The version of what it was started with, where the scheduler launched it. */
  version?: string | null;
}

const HOUR = 3600;

export const PARTS: readonly DemoPart[] = [
  part('vast-24518807', llama, 'works', 3.2 * HOUR),
  part('vast-24518811', llama, 'works', 3.2 * HOUR),
  part('vast-24519230', llama, 'works', 2.1 * HOUR),
  part('vast-24519642', llama, 'works', 52 * HOUR),
  part('vast-24520017', llama, 'works', 0.4 * HOUR),
  part('vast-24520188', llama, 'vanishes', 1.5 * HOUR),
  part('vast-24520193', llama, 'drains', 26 * HOUR),
  part('runpod-k3x9q0b7w2m1zs', qwen, 'works', 9 * HOUR),
  part('runpod-7hf2d81lq4p0ya', qwen, 'works', 9 * HOUR),
  part('runpod-0vt5n6c3e8r2jb', qwen, 'works', 5.5 * HOUR),
  part('runpod-m81s4kx7u0q3df', qwen, 'loads', 0),
  part('gpu-node-a-1', mistral, 'works', 74 * HOUR),
  part('gpu-node-a-2', mistral, 'works', 74 * HOUR),
  part('gpu-node-b-1', mistral, 'works', 74 * HOUR),
  part('gpu-node-b-2', mistral, 'presses', 12 * HOUR),
  part('gpu-node-c-1', mistral, 'fails', 64),
  part('embed-0', embeddings, 'works', 31 * HOUR),
  part('embed-1', embeddings, 'works', 31 * HOUR),
  part('embed-2', embeddings, 'works', 31 * HOUR),
  part('embed-3', embeddings, 'works', 6 * HOUR),
];

function part(workerId: string, pool: DemoPool, role: Role, ageSeconds: number): DemoPart {
  return { workerId, pool, role, ageSeconds };
}
