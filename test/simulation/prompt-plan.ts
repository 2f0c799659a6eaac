import { BLOCK_ENDS, type Prefix } from '../../src/queue/rpc.ts';
import { Random } from '../support/random.ts';
import { drawAdapter } from './adapter-plan.ts';

/** What a caller of `/v1` asks for. */
export interface PromptPlan {
  /** Its answer, a stream, may go on at another worker; null: it may not. */
  moves: MovesPlan | null;
  /** So long that another engine may prefill it. */
  isLong: boolean;
  /** How its prompt begins; null: that is not known. */
  prefix: Prefix | null;
  /** The adapter that it names as its model; null: none. */
  adapter: string | null;
}

interface MovesPlan {
  maxTokens: number;
  asksUsage: boolean;
  stop: string | null;
  /** A chat, one that begins with reasoning, or `/inference/v1/generate`. */
  form: 'chat' | 'reasoning' | 'tokens';
}

/** Most of them stand in two tokens. */
const STOPS = ['s t', 'n a', 'e w', ' th', 'y k', 'r l', 'en'];

export function drawPrompt(seed: number, index: number): PromptPlan {
  return {
    moves: drawMoves(seed, index),
    isLong: new Random(seed, `long ${index}`).chance(0.4),
    prefix: drawPrefix(new Random(seed, `prefix ${index}`)),
    adapter: drawAdapter(seed, index),
  };
}

export function drawStop(random: Random): string {
  return random.pick(STOPS);
}

function drawMoves(seed: number, index: number): MovesPlan | null {
  const random = new Random(seed, `moves ${index}`);
  const stops = new Random(seed, `stop ${index}`);
  if (!random.chance(0.6)) return null;
  const form = new Random(seed, `form ${index}`).pick(['chat', 'chat', 'reasoning', 'tokens'] as const);
  const [maxTokens, asksUsage] = [random.int(1, 40), random.chance(0.5)];
  return {
    form,
    maxTokens,
    asksUsage,
    stop: form === 'chat' && stops.chance(0.5) ? drawStop(stops) : null,
  };
}

/** Of one of a few conversations, as far as it has gone. */
function drawPrefix(random: Random): Prefix | null {
  if (random.chance(0.3)) return null;
  const [session, turns] = [random.int(1, 3), random.int(1, 4)];
  const hashes = Array.from({ length: 2 * turns }, (_, at) => session * 100 + at);
  return { session: random.chance(0.5) ? session : 0, bytes: BLOCK_ENDS[hashes.length - 1]!, hashes };
}
