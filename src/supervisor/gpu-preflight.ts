import * as z from 'zod';
import type { EngineDescription } from '../engine/kinds/description.ts';
import { checkGpus, GPU_QUERY, parseGpus, reasonNotToCheck } from '../engine/machine/gpu-check.ts';
import { nvidiaSmi } from '../engine/machine/gpus.ts';
import { type Logger, variable } from '../process/index.ts';

/** The variables of the check, which the supervisor adds to its own. */
export const gpuVariables = {
  GPU_CHECK: z.enum(['strict', 'warn', 'off'], { error: 'expected strict, warn or off' }).default('strict'),
  CASOLA_EXPECTED_GPU_NAME: variable.text().optional(),
  CASOLA_EXPECTED_VRAM_GB: variable.number(0).optional(),
};

const LIMIT_MS = 15_000;

/** Resolves to the reason why the engine must not be started on this machine, as one message; null: start it. */
export type Preflight = (stopped: AbortSignal) => Promise<string | null>;

/** Returns the check of the GPUs before the engine's first start. */
export function gpuPreflight(
  engine: EngineDescription,
  given: z.infer<z.ZodObject<typeof gpuVariables>>,
  env: NodeJS.ProcessEnv,
  log: Pick<Logger, 'info' | 'warn'>,
): Preflight {
  const { CUDA_VISIBLE_DEVICES: visible } = env;
  const mode = given.GPU_CHECK;
  const expected = { name: given.CASOLA_EXPECTED_GPU_NAME, vramGb: given.CASOLA_EXPECTED_VRAM_GB };

  async function findings(signal: AbortSignal): Promise<string[]> {
    const reason = reasonNotToCheck(visible);
    const answer = reason ? null : await nvidiaSmi({ args: GPU_QUERY, env, limitMs: LIMIT_MS, signal });
    if (answer?.case === 'failed') return [`${answer.problem}: look at the driver`];
    if (answer?.case === 'answered') return checkGpus(parseGpus(answer.output), visible, expected);
    log.info(`the GPUs are not checked: ${reason ?? 'there is no nvidia-smi on the PATH'}`);
    return [];
  }

  return async (stopped) => {
    if (mode === 'off' || !engine.usesGpu) return null;
    const found = (await findings(stopped)).join('; ');
    if (found === '') return null;
    if (mode === 'strict') {
      return `${engine.name} was not started, this machine's GPUs are not fit for it: ${found}. Use another machine, or set GPU_CHECK=warn to start it all the same.`;
    }
    log.warn(`this machine's GPUs: ${found}. Starting ${engine.name} all the same (GPU_CHECK=warn).`);
    return null;
  };
}
