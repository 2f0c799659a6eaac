import * as z from 'zod';
import { startGateway } from '../host/node/gateway.ts';
import {
  createLogger,
  EXIT,
  endSignals,
  logVariables,
  readEnvironment,
  unlessSignalled,
  variable,
} from '../process/index.ts';
import { isEverywhere } from '../process/network.ts';
import { list } from './command-line.ts';

/** The options of the command line, which take precedence over the environment. */
interface GatewayOptions {
  queue?: string;
  host?: string;
  port?: string;
  advertise?: string;
}

const queueUrl = variable.baseUrl('http:', 'https:', 'ws:', 'wss:');

const gatewayVariables = z.object({
  ...logVariables,
  GATEWAY_QUEUE: z
    .string()
    .transform((text, context) =>
      list(text).map((url) => {
        const read = queueUrl.safeParse(url);
        if (read.success) return read.data.replace(/^ws/, 'http').replace(/\/+$/, '');
        context.addIssue({ code: 'custom', message: read.error.issues[0]!.message });
        return z.NEVER;
      }),
    )
    .refine((urls) => urls.length > 0, { error: 'expected at least one address' })
    .describe('address of the queue, e.g. http://queue.internal:8788; or give --queue'),
  GATEWAY_TOKEN: variable.header().optional(),
  GATEWAY_HOST: variable.host().default('127.0.0.1'),
  // 0 lets the system choose a free one.
  GATEWAY_PORT: variable.integer(0, 65_535).default(8788),
  GATEWAY_ADVERTISE: z
    .string()
    .trim()
    .refine((text) => URL.canParse(`ws://${text}`) && new URL(`ws://${text}`).host === text, {
      error: 'expected host:port',
    })
    .optional(),
});

/**
 * Runs `worker-vllm gateway`: a gateway alone, for a queue in another process.
 * @returns the exit code
 * @throws UserError before anything was started, and when the queue refuses this gateway
 */
export async function runGateway(options: GatewayOptions, env: NodeJS.ProcessEnv): Promise<number> {
  const signals = endSignals();
  try {
    const given = readEnvironment(gatewayVariables, withOptions(options, env));
    const log = createLogger('gateway', env);
    const gateway = await startGateway({
      host: given.GATEWAY_HOST,
      port: given.GATEWAY_PORT,
      queueUrls: given.GATEWAY_QUEUE,
      token: given.GATEWAY_TOKEN ?? null,
      advertise: given.GATEWAY_ADVERTISE ?? null,
      logger: log,
    });
    const linked = await unlessSignalled(
      Promise.race([gateway.linked, signals.first]).catch(async (error: unknown) => {
        await gateway.stop();
        throw error;
      }),
      signals,
    );
    if (typeof linked === 'string') {
      log.info(`${linked}: the gateway ends before it was linked to its queue`);
      await gateway.stop();
      return EXIT.ok;
    }
    const also = isEverywhere(given.GATEWAY_HOST) ? ' and at every other address of this machine' : '';
    log.info(`listening at ${gateway.url}${also}, the dashboard too`);
    const signal = await signals.first;
    log.info(`${signal}: the gateway drains; once more to end at once`);
    const forced = await Promise.race([gateway.drain(), signals.second]);
    return forced ? EXIT.forced : EXIT.ok;
  } finally {
    signals.release();
  }
}

function withOptions({ queue, host, port, advertise }: GatewayOptions, env: NodeJS.ProcessEnv) {
  return {
    ...env,
    ...(queue !== undefined && { GATEWAY_QUEUE: queue }),
    ...(host !== undefined && { GATEWAY_HOST: host }),
    ...(port !== undefined && { GATEWAY_PORT: port }),
    ...(advertise !== undefined && { GATEWAY_ADVERTISE: advertise }),
  };
}
