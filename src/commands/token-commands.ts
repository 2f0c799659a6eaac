import { type Command, InvalidArgumentError } from 'commander';
import { SCOPES } from '../settings/token-entry.ts';
import { finish, list, withStateOption } from './command-line.ts';

/** Adds the commands `token …`, which say who may use a queue. */
export function addTokenCommands(program: Command): void {
  const token = program
    .command('token')
    .description('Say who may use a queue: in its state folder, or with --url in a queue that runs.');

  const create = token
    .command('create')
    .description('Make a token and print it this once; only its SHA-256 is kept.')
    .requiredOption(
      '--scope <scopes>',
      'what it is for: submit (callers), worker (workers), launcher (launchers), read (looking) or admin (everything); several with +',
      scopes,
    )
    .option('--name <name>', 'who it is for; also the tenant of its jobs')
    .option('--tenant <name>', 'whose jobs it submits and sees, where several tokens share them')
    .option('--worker-id <id>', "the only worker that may use it; * stands for any characters: 'runpod-*'");
  withPlace(withTerms(create))
    .addHelpText('after', '\nA queue that runs on the folder knows it within a second.')
    .action(async (options) => finish((await import('./tokens/commands.ts')).runTokenCreate(options)));

  withPlace(withTerms(token.command('set <name>')))
    .description('Change what a token may use, in force within a second; its secret stays.')
    .action(async (name, options) =>
      finish((await import('./tokens/commands.ts')).runTokenSet(name, options)),
    );

  withPlace(token.command('list'))
    .description('Show the tokens there are, what they may do, and when they were last used.')
    .option('--json', 'print them as JSON')
    .action(async (options) =>
      finish((await import('./tokens/commands.ts')).runTokenList(undefined, options)),
    );

  withPlace(token.command('show <name>'))
    .description('Show one of them.')
    .option('--json', 'print it as JSON')
    .action(async (name, options) =>
      finish((await import('./tokens/commands.ts')).runTokenList(name, options)),
    );

  withPlace(token.command('rotate <name>'))
    .description('Give a token another secret and print it this once; the old one is refused at once.')
    .action(async (name, options) =>
      finish((await import('./tokens/commands.ts')).runTokenRotate(name, options)),
    );

  withPlace(token.command('revoke <name>'))
    .description('Take a token away: it is refused, and what was opened with it ends.')
    .option('--cancel', 'with --url: cancel its stored jobs, too, which go on otherwise')
    .action(async (name, options) =>
      finish((await import('./tokens/commands.ts')).runTokenRevoke(name, options)),
    );
}

function withPlace(command: Command): Command {
  return withStateOption(command)
    .option('--url <url>', 'address of a queue that runs, in place of the folder; on Cloudflare the one way')
    .option('--token <token>', 'with --url: a token with the scope admin (variable CASOLA_API_TOKEN)');
}

function withTerms(command: Command): Command {
  return command
    .option('--models <names>', "the only models that it may ask for, comma-separated: 'qwen-*'", list)
    .option('--routes <paths>', "the only paths that it may ask for, comma-separated: '/v1/embeddings'", list)
    .option('--expires <when>', 'when it ends: 90d, 12h, or a date')
    .option('--weight <number>', 'its part of the slots while others wait: 2 is twice that of 1')
    .option('--priority <number>', 'of requests and jobs that name none; 0 unless said')
    .option('--highest-priority <number>', 'the highest that they may name; 0 unless said, of admin any')
    .option('--requests-per-minute <number>', "at most; by model too: '600,qwen-*=60'; none: no limit")
    .option('--tokens-per-minute <number>', 'tokens of prompts and answers, in the same way')
    .option('--tokens-per-day <number>', 'its budget from midnight to midnight in UTC, in the same way')
    .option('--tokens-per-month <number>', 'its budget of a month, in the same way')
    .option('--dollars-per-day <number>', 'the same in US dollars, as far as the price of workers is known')
    .option('--dollars-per-month <number>', 'the same of a month')
    .option(
      '--tenant-tokens-per-day <number>',
      'the budget of its tenant, over all tokens of that; none: no limit',
    )
    .option('--tenant-tokens-per-month <number>', 'the same of a month')
    .option('--tenant-dollars-per-day <number>', 'the same in US dollars')
    .option('--tenant-dollars-per-month <number>', 'the same of a month')
    .option('--running <number>', 'requests and stored jobs at a time, in the same way');
}

function scopes(text: string): string[] {
  const given = text.split(/[+,]/);
  const unknown = given.find((scope) => !(SCOPES as readonly string[]).includes(scope));
  if (unknown !== undefined)
    throw new InvalidArgumentError(`expected ${SCOPES.join(', ')}, not "${unknown}".`);
  return given;
}
