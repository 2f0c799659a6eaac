import { Command, CommanderError, InvalidArgumentError } from 'commander';
import { config as loadDotenv } from 'dotenv';
import { EXIT, UserError } from './process/index.ts';
import { manifest } from './process/package.ts';

/**
 * The command `worker-vllm`. Each command loads only what it needs, so that a worker's container does not
 * load what starts workerd, nor a queue the simulator.
 */

loadDotenv({ quiet: true });
// A terminal or a pipe that is closed is no reason to leave anything behind.
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {});

const { env } = process;
const DEFAULT_STATE = env.WORKER_VLLM_STATE || '.worker-vllm';
const SCOPES = ['submit', 'worker', 'read', 'admin'] as const;

const program = new Command('worker-vllm')
  .description(manifest.description)
  .version(manifest.version)
  .showHelpAfterError('(--help shows what is possible)')
  .exitOverride();

withQueueOptions(program.command('up'))
  .description('the whole road on this machine: queue, worker and engine')
  .addHelpText(
    'after',
    '\nENGINE_URL attaches to an engine that runs, VLLM_MODEL serves a model with vLLM, neither simulates.',
  )
  .action(async (options) => finish((await import('./commands/up.ts')).runUp(options, env)));

withQueueOptions(program.command('queue'))
  .description('queue and gateway alone, for workers elsewhere')
  .action(async (options) => finish((await import('./commands/queue.ts')).runQueue(options, env)));

program
  .command('supervise')
  .description("engine and worker of one container, from the environment's variables")
  .option('--print-command', "print the engine's command and where each argument comes from, start nothing")
  .action(async ({ printCommand }) => {
    const supervisor = await import('./supervisor/index.ts');
    return finish(printCommand ? supervisor.printCommand(env) : supervisor.runSupervisor(env));
  });

program
  .command('work')
  .description('a worker alone, for an engine that runs already')
  .action(async () => finish((await import('./worker/main.ts')).runWorker(env)));

program
  .command('health')
  .description('asks the engine of a container once: 0 healthy, 1 not')
  .action(async () => finish((await import('./engine/check-health.ts')).checkHealth(env)));

program
  .command('simulate')
  .description('the stand-in for "vllm serve": worker-vllm simulate MODEL --port 8000')
  .argument('[arguments...]', 'as for "vllm serve"')
  .allowUnknownOption()
  .helpOption(false)
  .action(async (args) => (await import('./simulator/index.ts')).runSimulator(args));

program
  .command('submit')
  .description('stores one job and prints its result')
  .argument('[prompt]', 'what to ask; left out, the payload is read as JSON')
  .option('--url <url>', 'address of the queue (QUEUE_URL)', env.QUEUE_URL || 'http://127.0.0.1:8788')
  .option(
    '--token <token>',
    'token with the scope submit (CASOLA_API_TOKEN)',
    env.CASOLA_API_TOKEN || undefined,
  )
  .option('--model <model>', 'the model to ask')
  .option('--job-type <type>', 'chat_completion, llm_inference or engine_request', 'chat_completion')
  .option('--config-id <id>', 'which workers may take it')
  .option('--file <path>', 'the payload as JSON (stdin without it)')
  .option('--wait <seconds>', 'how long to wait for the result; 0 prints the job at once', seconds, 300)
  .option('--trace', 'print what happened to the job, step by step, on stderr')
  .action(async (prompt, options) =>
    finish(
      (await import('./commands/submit.ts')).runSubmit(prompt, {
        token: env.CASOLA_API_TOKEN || undefined,
        ...options,
      }),
    ),
  );

program
  .command('token')
  .description('makes a token and prints it once')
  .requiredOption('--scope <scopes>', `what it may be used for: ${SCOPES.join(', ')}; several with +`, scopes)
  .option('--name <name>', 'who it is for')
  .option('--worker-id <id>', "id of the only worker that may use it, * for any characters: 'runpod-*'")
  .option('--state <dir>', 'state folder of the queue (WORKER_VLLM_STATE)', DEFAULT_STATE)
  .action(async (options) => finish((await import('./commands/token.ts')).runToken(options)));

program
  .command('state')
  .description('looks after the state folder of a queue')
  .command('check')
  .description('says which files a queue could not use, why, and what can be saved; changes nothing')
  .option('--state <dir>', 'state folder of the queue (WORKER_VLLM_STATE)', DEFAULT_STATE)
  .action(async (options) => finish((await import('./commands/state.ts')).runStateCheck(options)));

try {
  await program.parseAsync();
} catch (error) {
  process.exitCode = explain(error);
}

function withQueueOptions(command: Command): Command {
  return command
    .option('--host <host>', 'address to listen on (QUEUE_HOST, 127.0.0.1)')
    .option('--port <port>', 'port to listen on, 0 for a free one (QUEUE_PORT, 8788)')
    .option('--state <dir>', 'folder of all state (WORKER_VLLM_STATE, .worker-vllm)');
}

/** Ends at once with the command's code: a child that is stuck must not keep this process. */
async function finish(code: Promise<number>): Promise<never> {
  process.exit(await code);
}

/** Says what went wrong and gives the exit code. */
function explain(error: unknown): number {
  // commander has printed its own message, or the help that was asked for.
  if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.ok : EXIT.configuration;
  if (error instanceof UserError) {
    process.stderr.write(`${error.message}\n`);
    return error.exitCode;
  }
  const { message, stack } = error as Error;
  const hint = env.LOG_LEVEL === 'debug' ? stack : 'LOG_LEVEL=debug shows where this comes from.';
  process.stderr.write(`worker-vllm failed unexpectedly: ${message}\n${hint}\n`);
  return EXIT.unexpected;
}

function seconds(text: string): number {
  const value = Number(text);
  if (text.trim() === '' || !(value >= 0)) throw new InvalidArgumentError('expected a number of seconds.');
  return value;
}

function scopes(text: string): string[] {
  const given = text.split(/[+,]/);
  const unknown = given.find((scope) => !(SCOPES as readonly string[]).includes(scope));
  if (unknown !== undefined)
    throw new InvalidArgumentError(`expected ${SCOPES.join(', ')}, not "${unknown}".`);
  return given;
}
