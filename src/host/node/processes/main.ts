import { createLogger, endSignals, runMain } from '../../../process/index.ts';
import { parentChannel } from './child.ts';
import { runGatewayChild } from './gateway.ts';
import { failureOf } from './messages.ts';
import { runOwner } from './owner.ts';

await runMain(() => runQueueProcess(process.env));

/**
 * Runs a process of `worker-vllm queue --gateways`: the owner or a gateway, as the parent process says.
 * @returns the exit code
 * @throws UserError where no parent process started this one
 */
async function runQueueProcess(env: NodeJS.ProcessEnv): Promise<number> {
  const signals = endSignals();
  const parent = await parentChannel();
  const { start, name } = parent;
  const parts = { parent, signals, log: createLogger(name, env) };
  try {
    return start.role === 'owner' ? await runOwner(start, parts) : await runGatewayChild(start, parts);
  } catch (error) {
    const failure = failureOf(error as Error);
    await parent.tell({ type: 'refused', ...failure });
    // The parent process says what is wrong.
    if (failure.exitCode !== null) return failure.exitCode;
    throw error;
  }
}
