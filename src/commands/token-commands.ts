import { type Command, InvalidArgumentError } from 'commander';
import { anyOf } from '../protocol/text.ts';
import { SCOPES } from '../settings/token-entry.ts';
import { finish, list, withStateOption } from './command-line.ts';
import { LIMIT_FLAGS } from './tokens/limit-options.ts';

/** Adds the commands `token …`, which say who may use a queue. */
export function addTokenCommands(program: Command): void {
  const token = program
    .command('token')
    .description('Manage the tokens of a queue: in its state folder, or with --url in a running queue.');

  const create = token
    .command('create')
    .description('Create a token and print it, this once: the queue stores only its SHA-256.')
    .requiredOption(
      '--scope <scopes>',
      'what the token may do: submit (send requests and jobs), read (look at everything), worker, launcher or gateway (be one), or admin (everything); join several with +',
      scopes,
    )
    .option('--name <name>', 'name of its user, and the tenant of its jobs')
    .option('--tenant <name>', 'tenant whose jobs it submits and sees, if several tokens share one')
    .option('--worker-id <id>', "the only worker that may use it; * stands for any characters: 'runpod-*'");
  withPlace(withTerms(create))
    .addHelpText('after', '\nA queue that runs on the folder accepts it within a second.')
    .action(async (options) => finish((await import('./tokens/commands.ts')).runTokenCreate(options)));

  withPlace(withTerms(token.command('set <name>')))
    .description('Change what a token may use, within a second. Its secret stays.')
    .action(async (name, options) =>
      finish((await import('./tokens/commands.ts')).runTokenSet(name, options)),
    );

  withPlace(token.command('list'))
    .description('List the tokens, what they may do, and when they were last used.')
    .option('--json', 'print them as JSON')
    .action(async (options) =>
      finish((await import('./tokens/commands.ts')).runTokenList(undefined, options)),
    );

  withPlace(token.command('show <name>'))
    .description('Show one token.')
    .option('--json', 'print it as JSON')
    .action(async (name, options) =>
      finish((await import('./tokens/commands.ts')).runTokenList(name, options)),
    );

  withPlace(token.command('rotate <name>'))
    .description('Give a token a new secret and print it, this once. The old one is refused at once.')
    .action(async (name, options) =>
      finish((await import('./tokens/commands.ts')).runTokenRotate(name, options)),
    );

  withPlace(token.command('revoke <name>'))
    .description('Revoke a token: the queue refuses it and ends what was opened with it.')
    .option('--cancel', 'with --url: also cancel its stored jobs, which continue otherwise')
    .action(async (name, options) =>
      finish((await import('./tokens/commands.ts')).runTokenRevoke(name, options)),
    );
}

function withPlace(command: Command): Command {
  return withStateOption(command.optionsGroup('Where the tokens are:'))
    .option('--url <url>', 'address of a running queue, instead of the folder; the only way on Cloudflare')
    .option('--token <token>', 'with --url: a token with the scope admin (variable CASOLA_API_TOKEN)');
}

function withTerms(command: Command): Command {
  command
    .optionsGroup('What it may use:')
    .option('--models <names>', "the only models that it may ask for, comma-separated: 'qwen-*'", list)
    .option('--routes <paths>', "the only paths that it may ask for, comma-separated: '/v1/embeddings'", list)
    .option('--expires <when>', 'when it expires: 90d, 12h, or a date')
    .option('--weight <number>', 'its share of the slots while others wait: 2 gets twice as much as 1')
    .option('--priority <number>', 'priority of requests and jobs that name none (default 0)')
    .option('--highest-priority <number>', 'highest priority that they may name (default 0; any for admin)')
    .option('--store <policy>', 'whether its responses are stored: allow (default), off (when asked) or deny')
    .option('--keep <yes|no>', 'whether its requests are kept with their answers, where the queue keeps any')
    .option('--stored-bytes <number>', 'most bytes of responses and conversations that its tenant may store');
  command.optionsGroup('Limits and budgets:');
  for (const { flag, help } of LIMIT_FLAGS) command.option(`${flag} <number>`, help);
  return command;
}

function scopes(text: string): string[] {
  const given = text.split(/[+,]/);
  const unknown = given.find((scope) => !(SCOPES as readonly string[]).includes(scope));
  if (unknown !== undefined) throw new InvalidArgumentError(`expected ${anyOf(SCOPES)}, not "${unknown}".`);
  return given;
}
