import { Command, CommanderError, InvalidArgumentError, Option } from 'commander';
import { config as loadDotenv } from 'dotenv';
import { addAlertCommands } from './commands/alert-commands.ts';
import { checkOptions, DEFAULT_QUEUE_URL, finish, withStateOption } from './commands/command-line.ts';
import { addFleetCommands } from './commands/fleet-commands.ts';
import { addTokenCommands } from './commands/token-commands.ts';
import { EXIT, sourceStack, UserError } from './process/index.ts';
import { useProxies } from './process/outgoing.ts';
import { manifest } from './process/package.ts';
import { secretHider } from './process/secrets.ts';
import { printable } from './protocol/text.ts';
import { defaultText, operatorSettings, variableOf } from './settings/queue-settings.ts';

/**
 * The command `worker-vllm`. Each command loads only what it needs, so that a worker's container does not
 * load the queue, nor a queue the simulator.
 */

loadDotenv({ quiet: true });
// The command cleans up even if its terminal or pipe is closed.
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {});

const { env } = process;

const program = new Command('worker-vllm')
  .description(manifest.description)
  .version(manifest.version)
  .showHelpAfterError('(--help shows what is possible)')
  .addHelpText(
    'after',
    `
To begin, "worker-vllm up" starts everything on this machine and prints a first request.
Environment variables: see "worker-vllm queue --help" for a queue, docs/settings.md for all.`,
  )
  .exitOverride();

program.hook('preAction', async (_program, command) => {
  checkOptions(command, env);
  await useProxies(env);
  const { misspeltVariables } = await import('./commands/misspelt-variables.ts');
  for (const line of misspeltVariables(env)) process.stderr.write(`warning: ${line}\n`);
});

withQueueOptions(program.command('up'))
  .option('--fleet <file>', 'start and end workers by need, as this file says, instead of one worker')
  .description(
    'Start a queue, a worker and an engine together on this machine. With --fleet, start as many workers as are needed.',
  )
  .addHelpText(
    'after',
    `
The engine that answers:
  ENGINE_URL=http://127.0.0.1:11434  one that is already running: vLLM, Ollama, llama.cpp, ...
  VLLM_MODEL=Qwen/Qwen3-0.6B         vLLM, started with this model
  neither of them                    a simulator, whose answers are made up

Variables of the queue ("worker-vllm queue --help") and of the worker (docs/settings.md) count too.`,
  )
  .action(async ({ fleet: file, ...options }) =>
    finish(
      file === undefined
        ? (await import('./commands/up.ts')).runUp(options, env)
        : (await import('./commands/up-fleet.ts')).runUpFleet(file, options, env),
    ),
  );

withQueueOptions(program.command('queue'))
  .description('Start a queue and its HTTP API, for workers on other machines.')
  .option(
    '--journal <address>',
    'where every commit is stored too: postgres://…, s3://… or file:PATH (variable QUEUE_JOURNAL)',
  )
  .option('--follow', 'wait until the owner of the journal is gone, then take over (variable QUEUE_FOLLOW)')
  .addHelpText('after', queueVariablesText)
  .action(async (options) => finish((await import('./commands/queue.ts')).runQueue(options, env)));

program
  .command('gateway')
  .description('Start a gateway process of its own for a queue elsewhere. It keeps nothing; run any number.')
  .option('--queue <urls>', 'addresses of the queue, comma-separated (variable GATEWAY_QUEUE)')
  .option('--host <host>', 'address to listen on (variable GATEWAY_HOST, default 127.0.0.1)')
  .option('--port <port>', 'port to listen on, 0 for a free one (variable GATEWAY_PORT, default 8788)')
  .option(
    '--advertise <host:port>',
    'address at which other gateways reach this one (variable GATEWAY_ADVERTISE)',
  )
  .addHelpText(
    'after',
    `
Required where the queue asks for tokens:
  GATEWAY_TOKEN  a token of "worker-vllm token create --scope gateway"
The queue tells the gateway all other settings, its tokens too.`,
  )
  .action(async (options) => finish((await import('./commands/gateway.ts')).runGateway(options, env)));

program
  .command('supervise')
  .description('Start an engine and its worker on a GPU machine, and watch both.')
  .option('--print-command', "print the engine's command and the source of each argument; start nothing")
  .option('--test_input <json>', 'as RunPod\'s SDK: run one job, {"input": ...}, print its result and end')
  .option('--rp_serve_api', "as RunPod's SDK: serve its local API")
  .option('--rp_api_host <host>', 'address of that API (default localhost)')
  .option('--rp_api_port <port>', 'port of that API (default 8000)')
  .option('--rp_api_concurrency <jobs>', 'jobs that it runs at a time')
  .option('--rp_log_level <level>', 'level of the log: DEBUG, INFO, WARN or ERROR')
  .addHelpText(
    'after',
    `
Environment variables set everything. In a serverless endpoint of RunPod, which sets its own, the model
(MODEL_NAME) is enough. Elsewhere these are required:
  CASOLA_WS_URL     address of the queue: wss://queue.example.com
  CASOLA_CONFIG_ID  name of the jobs that this worker takes
  VLLM_MODEL        the model to serve, or ENGINE_URL for an engine that is already running
docs/settings.md lists the others, and docs/troubleshooting.md the exit codes.`,
  )
  .action(async ({ printCommand, ...options }) => {
    const { withLocalMode } = await import('./commands/runpod-local.ts');
    const supervisor = await import('./supervisor/index.ts');
    const given = withLocalMode(env, options);
    return finish(printCommand ? supervisor.printCommand(given) : supervisor.runSupervisor(given));
  });

program
  .command('swap')
  .description('Start several engines that share a GPU, of which one is awake at a time, with a worker each.')
  .argument('<files...>', 'a file of variables (NAME=value, a line each) for each, as for "supervise"')
  .action(async (files) => finish((await import('./commands/swap.ts')).runSwap(files, env)));

program
  .command('work')
  .description('Start a worker alone, for an engine that is already running.')
  .addHelpText(
    'after',
    '\nRequired variables: CASOLA_WS_URL, CASOLA_CONFIG_ID and ENGINE_URL. See docs/settings.md.',
  )
  .action(async () => finish((await import('./worker/main.ts')).runWorker(env)));

program
  .command('health')
  .description(
    'Check that the program of this container works: the engine, the queue, or the way to the queue. The exit code is 0 if it does, else 1.',
  )
  .action(async () => finish((await import('./commands/health.ts')).runHealth(env)));

program
  .command('simulate')
  .description('Start a stand-in for "vllm serve" that needs no GPU: simulate MODEL --port 8000.')
  .argument('[arguments...]', 'as for "vllm serve"')
  .allowUnknownOption()
  .helpOption(false)
  .action(async (args) => (await import('./simulator/index.ts')).runSimulator(args));

program
  .command('submit')
  .description(
    'Submit one job, wait for it and print its result as JSON; or all jobs of a file, a line each.',
  )
  .argument(
    '[prompt]',
    'what to ask, or a .jsonl file of jobs or payloads; if left out, --file or stdin is read',
  )
  .option('--url <url>', 'address of the queue (variable QUEUE_URL)', DEFAULT_QUEUE_URL)
  .option('--token <token>', 'token with the scope submit (variable CASOLA_API_TOKEN)')
  .option('--model <model>', 'the model to ask')
  .option('--job-type <type>', 'chat_completion, llm_inference or engine_request', 'chat_completion')
  .option('--config-id <id>', 'pool whose workers may take it: their CASOLA_CONFIG_ID')
  .option('--file <path>', 'file with the payload as JSON')
  .option('--wait <seconds>', 'seconds to wait for the result; 0 prints the job at once', seconds, 300)
  .option('--text', 'print the text of the answer alone, not the result as JSON')
  .option('--trace', 'print what happened to the job, step by step, on stderr')
  .option('-o, --output <path>', 'with a .jsonl file: where results are written (default FILE.results.jsonl)')
  .option(
    '--in-flight <count>',
    'with a .jsonl file: most jobs that are submitted and not finished',
    count,
    256,
  )
  .action(async (prompt, options) => {
    const jobFile = [prompt, options.file].find((path) => /\.(jsonl|ndjson)$/i.test(path ?? ''));
    return finish(
      jobFile === undefined
        ? (await import('./commands/submit.ts')).runSubmit(prompt, options)
        : (await import('./commands/submit.ts')).runSubmitFile(jobFile, options),
    );
  });

program
  .command('top')
  .description('Show the fleet live: what needs attention, every pool and every worker.')
  .option('--url <url>', 'address of the queue (variable QUEUE_URL)', DEFAULT_QUEUE_URL)
  .option('--token <token>', 'token with the scope read (variable CASOLA_API_TOKEN)')
  .option('--queue-id <id>', 'id of the queue at that address')
  .option('--json', 'print each frame of the live connection as a line of JSON')
  .action(async (options) => finish((await import('./commands/top.ts')).runTop(options)));

withTarget(program.command('usage'), 'read, or submit for its own tenant')
  .description(
    'Print usage and cost by day, tenant, token, pool, model and mode, for a spreadsheet or a program.',
  )
  .option('--month <month>', 'a month of UTC, such as 2026-11 (default the present one)')
  .option('--since <time>', 'in place of a month: from then on, as ISO time or epoch seconds')
  .option('--until <time>', 'with --since: before then (default now)')
  .addOption(new Option('--format <format>', 'form of the rows').choices(['csv', 'jsonl']).default('csv'))
  .option('--queue-id <id>', 'id of the queue at that address')
  .action(async (options) => finish((await import('./commands/usage.ts')).runUsage(options)));

const batch = program
  .command('batch')
  .description('Run a file of requests as a batch, list batches, and cancel them.');

withTarget(batch.command('run <file>'))
  .description(
    'Run every line of a .jsonl file and write the answers. The same command continues a run that was stopped.',
  )
  .option('-o, --output <path>', 'where answers are written (default FILE.output.jsonl)')
  .option('--window <window>', 'longest time that the batch may take: a number with m, h or d', '24h')
  .action(async (file, options) => finish((await import('./commands/batch.ts')).runBatch(file, options)));

withTarget(batch.command('list'))
  .description('List the newest batches.')
  .action(async (options) => finish((await import('./commands/batch.ts')).listBatches(options)));

withTarget(batch.command('status <id>'))
  .description('Print one batch as JSON.')
  .action(async (id, options) => finish((await import('./commands/batch.ts')).showBatch(id, options)));

withTarget(batch.command('cancel <id>'))
  .description('Cancel a batch. The answers so far are kept.')
  .action(async (id, options) => finish((await import('./commands/batch.ts')).cancelBatch(id, options)));

addFleetCommands(program);

addAlertCommands(program);

addTokenCommands(program);

const state = program
  .command('state')
  .description('Examine the state folder of a queue, copy it while the queue runs, and restore a copy.');

withStateOption(state.command('check'))
  .description('Report which files a queue cannot use, why, and what can be saved. It changes nothing.')
  .action(async (options) => finish((await import('./commands/state.ts')).runStateCheck(options)));

withStateOption(state.command('backup <folder>'))
  .description('Copy all state to an empty folder, as it is at one moment. The queue may be running.')
  .action(async (folder, options) =>
    finish((await import('./commands/state.ts')).runStateBackup(folder, options)),
  );

withStateOption(state.command('restore <folder>'))
  .description('Restore such a copy to a state folder that is empty or missing. Nothing is overwritten.')
  .action(async (folder, options) =>
    finish((await import('./commands/state.ts')).runStateRestore(folder, options)),
  );

process.once('uncaughtException', (error) => process.exit(explain(error)));
try {
  await program.parseAsync();
} catch (error) {
  process.exitCode = explain(error);
}

function withQueueOptions(command: Command): Command {
  return command
    .option('--host <host>', 'address to listen on (variable QUEUE_HOST, default 127.0.0.1)')
    .option('--port <port>', 'port to listen on, 0 for a free one (variable QUEUE_PORT, default 8788)')
    .option('--state <dir>', 'folder of all state (variable WORKER_VLLM_STATE, default .worker-vllm)')
    .option(
      '--gateways <n>',
      'processes that share the port and pass answers on, beside the one with the state; 0: one process does it all (variable QUEUE_GATEWAYS, default 0)',
    );
}

function withTarget(command: Command, scope = 'submit'): Command {
  return command
    .option('--url <url>', 'address of the queue (variable QUEUE_URL)', DEFAULT_QUEUE_URL)
    .option('--token <token>', `token with the scope ${scope} (variable CASOLA_API_TOKEN)`);
}

/** Returns the table of settings as help. */
function queueVariablesText(): string {
  const rows = operatorSettings().map(([name, setting]) => [
    variableOf(name),
    `${plainText(setting.help)} (${defaultText(setting)})`,
  ]);
  const all = [
    ['QUEUE_TOKENS', 'tokens beside those of "worker-vllm token create"; see docs/settings.md'],
    ...rows,
  ];
  const width = Math.max(...all.map(([name = '']) => name.length));
  return `\nVariables, with their defaults:\n${all.map(([name = '', help]) => `  ${name.padEnd(width)}  ${help}\n`).join('')}`;
}

/** Turns the Markdown of docs/settings.md into text for a terminal: a link becomes the path that it leads to. */
function plainText(markdown: string): string {
  return markdown.replaceAll(/\[([^\]]+)\]\(([^)]+)\)/g, '$1: docs/$2').replaceAll('`', '');
}

/** Prints the error and returns its exit code. */
function explain(error: unknown): number {
  const hide = secretHider(env);
  // commander has printed its own message, or the requested help.
  if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.ok : EXIT.configuration;
  if (error instanceof UserError) {
    // The message may contain a queue's own words.
    process.stderr.write(`${printable(hide(error.message))}\n`);
    return error.exitCode;
  }
  const { message } = error as Error;
  const hint =
    env.LOG_LEVEL === 'debug' ? sourceStack(error) : 'LOG_LEVEL=debug shows where this comes from.';
  process.stderr.write(`worker-vllm failed unexpectedly: ${printable(hide(message))}\n${hide(hint)}\n`);
  return EXIT.unexpected;
}

function seconds(text: string): number {
  const value = Number(text);
  if (text.trim() === '' || !(value >= 0)) throw new InvalidArgumentError('expected a number of seconds.');
  return value;
}

function count(text: string): number {
  const value = Number(text);
  if (!(Number.isInteger(value) && value > 0))
    throw new InvalidArgumentError('expected a whole number above 0.');
  return value;
}
