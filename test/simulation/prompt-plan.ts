import { PIECE_ENDS, type Prefix } from '../../src/queue/rpc.ts';
import { Random } from '../support/random.ts';
import { drawAdapter } from './adapter-plan.ts';

/** What a caller of `/v1` asks for. */
export interface PromptPlan {
  /** Its answer, a stream, may go on at another worker; null: it may not. */
  moves: { maxTokens: number; asksUsage: boolean; stop: string | null } | null;
  /** So long that another engine may prefill it. */
  isLong: boolean;
  /** How its prompt begins; null: that is not known. */
  prefix: Prefix | null;
  /** The adapter that it names as its model; null: none. */
  adapter: string | null;
}

/** Most of them stand in two tokens. */
const STOPS = ['s t', 'n a', 'e w', ' th', 'y k', 'r l', 'en'];

export function drawPrompt(seed: number, index: number): PromptPlan {
  const random = new Random(seed, `moves ${index}`);
  const stops = new Random(seed, `stop ${index}`);
  return {
    moves: random.chance(0.6)
      ? {
          maxTokens: random.int(1, 40),
          asksUsage: random.chance(0.5),
          stop: stops.chance(0.5) ? drawStop(stops) : null,
        }
      : null,
    isLong: new Random(seed, `long ${index}`).chance(0.4),
    prefix: drawPrefix(new Random(seed, `prefix ${index}`)),
    adapter: drawAdapter(seed, index),
  };
}

export function drawStop(random: Random): string {
  return random.pick(STOPS);
}

/** Of one of a few conversations, as far as it has gone. */
function drawPrefix(random: Random): Prefix | null {
  if (random.chance(0.3)) return null;
  const [session, turns] = [random.int(1, 3), random.int(1, 4)];
  const pieces = Array.from({ length: 2 * turns }, (_, at) => session * 100 + at);
  return { session: random.chance(0.5) ? session : 0, bytes: PIECE_ENDS[pieces.length - 1]!, pieces };
}
